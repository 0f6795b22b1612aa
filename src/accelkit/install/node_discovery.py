"""Looks for cards on nodes that nobody has labelled, by a pod on each that runs `accelkit discover` once."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelkit.errors import ServiceError, raise_first
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import delete_and_wait
from accelkit.kube.paths import build_collection_path, build_pod_path
from accelkit.kube.pods import LOG_BYTES, wait_until_ended

_AT_ONCE: Final = 16
_DELETE_SECONDS: Final = 60.0
_LABELS: Final = {"app.kubernetes.io/name": "accelkit-discover", "app.kubernetes.io/part-of": "accelkit"}
# Each lies below /host in the container. Node agents see the same.
_FOLDERS: Final = ("/sys", "/proc", "/dev")
# Not the folder of the file itself: where it is missing the container runtime would make it, and it would stay.
_CARDS_FILE_FOLDER: Final = "/etc"


@dataclass(frozen=True)
class DiscoveryPod:
    """What the pods are made of.

    Attributes:
        namespace: of the pods.
        image: accelkit's.
        pull_secrets: names of Secrets in the namespace.
        cards_file: whether the file of simulated cards is read, below /etc/accelkit on the nodes.
    """

    namespace: str
    image: str
    pull_secrets: tuple[str, ...] = ()
    cards_file: bool = False


class _Found(msgspec.Struct):
    cards: list[Any]


async def find_cards(
    api: ApiClient, nodes: Collection[str], pod: DiscoveryPod, *, seconds: float
) -> tuple[dict[str, int], dict[str, str]]:
    """Count the cards of nodes; the pods are deleted afterwards, whatever happens.

    Args:
        api: an open client.
        nodes: names of the nodes to look at.
        pod: what the pods are made of.
        seconds: how long each may take.

    Returns:
        By node, how many cards it has; and by node, why it is not known.

    Raises:
        ApiError: the API server refused a pod.
    """
    counts: dict[str, int] = {}
    problems: dict[str, str] = {}
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(node: str) -> None:
        async with turn:
            try:
                counts[node] = await _look_at(api, node, pod, time.monotonic() + seconds)
            except ServiceError as exc:
                problems[node] = str(exc)

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            for node in nodes:
                group.create_task(look(node))
    return counts, problems


async def _look_at(api: ApiClient, node: str, pod: DiscoveryPod, deadline: float) -> int:
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
        return await _read_count(api, path)
    finally:
        await _delete(api, path)


async def _read_count(api: ApiClient, path: str) -> int:
    log = await api.get(f"{path}/log", query={"limitBytes": str(LOG_BYTES)})
    try:
        return len(msgspec.json.decode(log, type=_Found).cards)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        said = " ".join(log.decode(errors="replace").split())[-300:]
        raise ServiceError(f"its pod gave no list of cards: {said or 'it printed nothing'}") from exc


async def _delete(api: ApiClient, path: str) -> None:
    try:
        await delete_and_wait(api, path, time.monotonic() + _DELETE_SECONDS)
    except TimeoutError as exc:
        raise ServiceError(f"{path.rpartition('/')[2]} is not gone after {_DELETE_SECONDS:.0f} s") from exc


def _build_pod(name: str, node: str, pod: DiscoveryPod) -> dict[str, Any]:
    folders = (*_FOLDERS, _CARDS_FILE_FOLDER) if pod.cards_file else _FOLDERS
    volumes = [
        {"name": f"host-{at}", "hostPath": {"path": path, "type": "Directory"}} for at, path in enumerate(folders)
    ]
    return {
        "metadata": {"name": name, "namespace": pod.namespace, "labels": _LABELS},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 300,
            # It reads files of its host, and nothing of the cluster.
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": secret} for secret in pod.pull_secrets],
            "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "discover",
                    "image": pod.image,
                    "imagePullPolicy": "IfNotPresent",
                    # What is logged lies in the same stream.
                    "args": ["--log-level", "error", "discover", "--host-root", "/host", "-o", "json"],
                    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": f"host-{at}", "mountPath": f"/host{path}", "readOnly": True}
                        for at, path in enumerate(folders)
                    ],
                }
            ],
            "volumes": volumes,
        },
    }
