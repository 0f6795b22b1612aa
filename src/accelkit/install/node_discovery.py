"""Looks at the cards of nodes that are not shared yet, by a pod on each that runs `accelkit discover` once."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError, ConfigurationError, ServiceError, raise_first
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import delete_and_wait
from accelkit.kube.paths import build_collection_path, build_pod_path
from accelkit.kube.pods import LOG_BYTES, wait_until_ended
from accelkit.model.keys import NAME_LABEL, PART_OF_LABELS

_AT_ONCE: Final = 16
_DELETE_SECONDS: Final = 60.0
_LABELS: Final = {NAME_LABEL: "accelkit-discover", **PART_OF_LABELS}
# Each lies below /host in the container. Node agents see the same, but for secrets of /etc: they run for long, and have
# tokens.
_MOVED: Final = ("/dev", "/etc", "/sys")
_OWN: Final = ("/proc",)
# As node agents have it: NVIDIA's container runtime, where it is in use, gives library and device nodes by these.
_ENVIRONMENT: Final = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
]


@dataclass(frozen=True)
class DriverReach:
    """How a pod gets at libraries and device nodes of its node's driver.

    Attributes:
        driver_root: folder on the nodes below which the drivers lie.
        runtime_class: of the pod; empty for none.
        cdi_devices: what the container runtime gives it, by CDI names.
        privileged: whether it has all device nodes.
    """

    driver_root: str = "/"
    runtime_class: str = ""
    cdi_devices: tuple[str, ...] = ()
    privileged: bool = False


_PLAIN: Final = DriverReach()


@dataclass(frozen=True)
class DiscoveryPod:
    """What the pods are made of.

    Attributes:
        namespace: of the pods.
        image: accelkit's.
        pull_secrets: names of Secrets in the namespace.
        host_root: folder on the nodes below which their cards are described, as that of node agents.
        reach: what node agents have to reach the drivers of their nodes.
    """

    namespace: str
    image: str
    pull_secrets: tuple[str, ...] = ()
    host_root: str = "/"
    reach: DriverReach = _PLAIN


@dataclass(frozen=True)
class Findings:
    """What was found, by node.

    Attributes:
        counts: how many cards it has.
        missing: what its cards cannot be shared without.
        doubtful: which of the vendors' libraries is not seen, or does not work; a driver may have them elsewhere.
        problems: why nothing is known of it.
    """

    counts: dict[str, int] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    doubtful: dict[str, list[str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class _Library(msgspec.Struct):
    name: str
    reason: str = ""


class _Found(msgspec.Struct):
    cards: list[Any]
    missing: list[str] = []
    libraries: dict[str, list[_Library]] = {}


async def find_cards(api: ApiClient, nodes: Collection[str], pod: DiscoveryPod, *, seconds: float) -> Findings:
    """Look at the cards of nodes; the pods are deleted afterwards, whatever happens.

    Nodes with cards are looked at again with the reach of node agents, where it is another one; others may lack the
    handler of a RuntimeClass, or the folder of a driver.

    Args:
        api: an open client.
        nodes: names of the nodes to look at.
        pod: what the pods are made of.
        seconds: how long each may take.

    Raises:
        ApiError: the API server refused a pod.
        ConfigurationError: it refuses pods with the reach of node agents, as with a RuntimeClass that there is not.
    """
    findings = Findings()
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(node: str) -> None:
        async with turn:
            try:
                found = await _look_at(api, node, replace(pod, reach=_PLAIN), time.monotonic() + seconds)
            except ServiceError as exc:
                findings.problems[node] = str(exc)
                return
            findings.counts[node] = len(found.cards)
            if found.cards and pod.reach != _PLAIN:
                try:
                    found = await _look_at(api, node, pod, time.monotonic() + seconds)
                except ApiError as exc:
                    if not exc.forbidden:
                        raise
                    raise ConfigurationError(
                        f"pods that reach the driver as node agents do are refused: {exc}",
                        next_step="name a RuntimeClass that there is (kubectl get runtimeclass) in "
                        "device_plugin_runtime_class, or see what the namespace forbids",
                    ) from exc
                except ServiceError as exc:
                    findings.doubtful[node] = [f"a pod that reaches the driver as node agents do: {exc}"]
                    return
            if found.missing:
                findings.missing[node] = found.missing
            doubts = [
                f"library {each.name} of {vendor}: {each.reason}"
                for vendor, libraries in found.libraries.items()
                for each in libraries
                if each.reason
            ]
            if doubts:
                findings.doubtful[node] = doubts

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(look(node))
    return findings


async def _look_at(api: ApiClient, node: str, pod: DiscoveryPod, deadline: float) -> _Found:
    name = f"accelkit-discover-{hashlib.sha256(node.encode()).hexdigest()[:10]}"
    path = build_pod_path(pod.namespace, name)
    # What a run that was killed has left.
    await _delete(api, path)
    try:
        await api.post(build_collection_path("v1", "pods", pod.namespace), _build_pod(name, node, pod))
        progress = await wait_until_ended(api, path, deadline)
        if progress.has_no_image:
            raise ServiceError(f"its pod cannot have its image: {progress.message}")
        if not progress.ended:
            raise ServiceError(f"its pod did not end in time: {progress.message}")
        return await _read_found(api, path, progress.message)
    finally:
        await _delete(api, path)


async def _read_found(api: ApiClient, path: str, message: str) -> _Found:
    try:
        log = await api.get(f"{path}/log", query={"limitBytes": str(LOG_BYTES)})
    except ApiError as exc:
        # A kubelet without room for it, as on a node full of pods, ends a pod before it has a container.
        raise ServiceError(f"its pod said nothing: {message}; {exc}") from exc
    try:
        return msgspec.json.decode(log, type=_Found)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        said = " ".join(log.decode(errors="replace").split())[-300:]
        raise ServiceError(f"its pod gave no list of cards: {said or 'it printed nothing'}") from exc


async def _delete(api: ApiClient, path: str) -> None:
    try:
        await delete_and_wait(api, path, time.monotonic() + _DELETE_SECONDS)
    except TimeoutError as exc:
        raise ServiceError(f"{path.rpartition('/')[2]} is not gone after {_DELETE_SECONDS:.0f} s") from exc


def _build_pod(name: str, node: str, pod: DiscoveryPod) -> dict[str, Any]:
    root, reach = pod.host_root.rstrip("/"), pod.reach
    driver = "/usr" if reach.driver_root == "/" else reach.driver_root
    folders = {path: root + path for path in (*_MOVED, driver)} | {path: path for path in _OWN}
    # A path may have what a name may not.
    names = {path: "driver" if path == driver else path.strip("/") for path in folders}
    volumes = [
        {"name": names[path], "hostPath": {"path": place, "type": "Directory"}} for path, place in folders.items()
    ]
    annotations = {"nvidia.cdi.k8s.io/container.discover": ",".join(reach.cdi_devices)} if reach.cdi_devices else {}
    unprivileged = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {"name": name, "namespace": pod.namespace, "labels": _LABELS, "annotations": annotations},
        "spec": {
            "nodeName": node,
            **({"runtimeClassName": reach.runtime_class} if reach.runtime_class else {}),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 300,
            # It reads files of its host, and nothing of the cluster.
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
            # Not as root: node agents are, and could look through its mounts by its process.
            "securityContext": {
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "discover",
                    "image": pod.image,
                    "imagePullPolicy": "IfNotPresent",
                    # What is logged lies in the same stream.
                    "args": ["--log-level", "error", "discover", "--host-root", "/host", "-o", "json"],
                    "env": _ENVIRONMENT,
                    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                    "securityContext": {
                        "readOnlyRootFilesystem": True,
                        **({"privileged": True} if reach.privileged else unprivileged),
                    },
                    "volumeMounts": [
                        {"name": names[path], "mountPath": f"/host{path}", "readOnly": True} for path in folders
                    ],
                }
            ],
            "volumes": volumes,
        },
    }
