"""Discovery of cards on nodes that are not shared yet. A pod on each node runs `accelkit discover` once."""

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
# These folders are mounted below /host in the container. Node agents mount the same folders, but without secrets in
# /etc, because node agents run permanently and have tokens.
_MOVED: Final = ("/dev", "/etc", "/sys")
_OWN: Final = ("/proc",)
# If NVIDIA's container runtime is in use, these variables request the library and the device nodes.
_ENVIRONMENT: Final = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
]


@dataclass(frozen=True)
class DriverReach:
    """A pod's access to the libraries and device nodes of the driver on its node.

    Attributes:
        driver_root: the folder on the nodes that contains the drivers.
        runtime_class: the RuntimeClass of the pod; empty for none.
        cdi_devices: the CDI names of devices that the container runtime adds.
        privileged: whether the pod has access to all device nodes.
    """

    driver_root: str = "/"
    runtime_class: str = ""
    cdi_devices: tuple[str, ...] = ()
    privileged: bool = False


_PLAIN: Final = DriverReach()


@dataclass(frozen=True)
class DiscoveryPod:
    """Template for the discovery pods.

    Attributes:
        namespace: the namespace of the pods.
        image: accelkit's image.
        pull_secrets: the names of pull secrets in the namespace.
        host_root: the folder on the nodes that contains the data about cards. Node agents use the same folder.
        reach: the access of node agents to the drivers on their nodes.
    """

    namespace: str
    image: str
    pull_secrets: tuple[str, ...] = ()
    host_root: str = "/"
    reach: DriverReach = _PLAIN


@dataclass(frozen=True)
class Findings:
    """Results of the discovery, by node.

    Attributes:
        counts: the number of cards.
        missing: the unmet requirements for sharing the cards.
        library_problems: vendor libraries that are missing or do not work. The driver may have installed them in a
            different folder.
        problems: the reason why the cards are unknown, for nodes without a result.
    """

    counts: dict[str, int] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    library_problems: dict[str, list[str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class _Library(msgspec.Struct):
    name: str
    reason: str = ""


class _Found(msgspec.Struct):
    cards: list[Any]
    missing: list[str] = []
    libraries: dict[str, list[_Library]] = {}


async def find_cards(api: ApiClient, nodes: Collection[str], pod: DiscoveryPod, *, seconds: float) -> Findings:
    """Discover the cards of nodes. The discovery pods are always deleted afterwards.

    If node agents have different access to drivers, nodes with cards are examined again with this access. Nodes without
    cards are not examined again, because they may lack the RuntimeClass handler or the driver folder.

    Args:
        api: an open client.
        nodes: the names of the nodes.
        pod: the template for the pods.
        seconds: the time limit for each pod.

    Raises:
        ApiError: the API server rejected a pod.
        ConfigurationError: the API server rejected pods with the driver access of node agents, for example because a
            RuntimeClass does not exist.
    """
    findings = Findings()
    limit = asyncio.Semaphore(_AT_ONCE)

    async def examine(node: str) -> None:
        async with limit:
            try:
                found = await _run_discovery(api, node, replace(pod, reach=_PLAIN), time.monotonic() + seconds)
            except ServiceError as exc:
                findings.problems[node] = str(exc)
                return
            findings.counts[node] = len(found.cards)
            if found.cards and pod.reach != _PLAIN:
                try:
                    found = await _run_discovery(api, node, pod, time.monotonic() + seconds)
                except ApiError as exc:
                    if not exc.forbidden:
                        raise
                    raise ConfigurationError(
                        f"the API server rejects pods with the driver access of node agents: {exc}",
                        next_step="specify an existing RuntimeClass (kubectl get runtimeclass) in "
                        "device_plugin_runtime_class, or check which pods the namespace allows",
                    ) from exc
                except ServiceError as exc:
                    findings.library_problems[node] = [f"discovery with the driver access of node agents failed: {exc}"]
                    return
            if found.missing:
                findings.missing[node] = found.missing
            problems = [
                f"library {each.name} of {vendor}: {each.reason}"
                for vendor, libraries in found.libraries.items()
                for each in libraries
                if each.reason
            ]
            if problems:
                findings.library_problems[node] = problems

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(examine(node))
    return findings


async def _run_discovery(api: ApiClient, node: str, pod: DiscoveryPod, deadline: float) -> _Found:
    name = f"accelkit-discover-{hashlib.sha256(node.encode()).hexdigest()[:10]}"
    path = build_pod_path(pod.namespace, name)
    # The pod of an aborted run may still exist.
    await _delete(api, path)
    try:
        await api.post(build_collection_path("v1", "pods", pod.namespace), _build_pod(name, node, pod))
        progress = await wait_until_ended(api, path, deadline)
        if progress.has_no_image:
            raise ServiceError(f"its pod cannot pull its image: {progress.message}")
        if not progress.ended:
            raise ServiceError(f"its pod did not finish before the deadline: {progress.message}")
        return await _read_found(api, path, progress.message)
    finally:
        await _delete(api, path)


async def _read_found(api: ApiClient, path: str, message: str) -> _Found:
    try:
        log = await api.get(f"{path}/log", query={"limitBytes": str(LOG_BYTES)})
    except ApiError as exc:
        # On a full node, the kubelet rejects a pod before it creates a container.
        raise ServiceError(f"its pod has no log: {message}; {exc}") from exc
    try:
        return msgspec.json.decode(log, type=_Found)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        output = " ".join(log.decode(errors="replace").split())[-300:]
        raise ServiceError(f"its pod did not print a list of cards: {output or 'its log is empty'}") from exc


async def _delete(api: ApiClient, path: str) -> None:
    try:
        await delete_and_wait(api, path, time.monotonic() + _DELETE_SECONDS)
    except TimeoutError as exc:
        raise ServiceError(f"pod {path.rpartition('/')[2]} still exists after {_DELETE_SECONDS:.0f} s") from exc


def _build_pod(name: str, node: str, pod: DiscoveryPod) -> dict[str, Any]:
    root, reach = pod.host_root.rstrip("/"), pod.reach
    driver = "/usr" if reach.driver_root == "/" else reach.driver_root
    folders = {path: root + path for path in (*_MOVED, driver)} | {path: path for path in _OWN}
    # A path may contain characters that are invalid in a volume name.
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
            # The pod reads files on its host, and does not use the API server.
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
            # The pod does not run as root, because node agents run as root and could then read its mounts through
            # /proc.
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
                    # The kubelet combines the log and the output in one stream.
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
