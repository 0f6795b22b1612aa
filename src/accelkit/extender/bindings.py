"""Writes Bindings, and reads the pods that they are about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from accelkit.errors import ApiError, PodGoneError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_pod_path
from accelkit.model.pod import Pod, PodRef

# The API server gives up on a write after this long.
_WRITE_SECONDS: Final = 5
# For so long after it was sent a Binding may still appear, even one of a predecessor that was killed.
PREDECESSOR_SECONDS: Final = _WRITE_SECONDS + 1.0

_pod = msgspec.json.Decoder(Pod)


async def write_binding(api: ApiClient, pod: PodRef, node: str, annotations: Mapping[str, str]) -> None:
    """Bind a pod to a node and annotate it, in one transaction of the API server.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    metadata: dict[str, object] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if annotations:
        metadata["annotations"] = annotations
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        # No byte of it leaves later: whoever binds after us counts on that.
        async with asyncio.timeout(PREDECESSOR_SECONDS):
            await api.post(
                f"{build_pod_path(pod.namespace, pod.name)}/binding", binding, query={"timeout": f"{_WRITE_SECONDS}s"}
            )
    except TimeoutError as exc:
        raise ApiError(f"no answer within {PREDECESSOR_SECONDS:.0f} s") from exc


async def read_pod(api: ApiClient, pod: PodRef) -> Pod:
    """Return the pod with this UID.

    Raises:
        PodGoneError: it does not exist any more.
        ApiError: the API server refused or did not answer.
    """
    try:
        found = _pod.decode(await api.get(build_pod_path(pod.namespace, pod.name)))
    except UNREADABLE as exc:
        raise ApiError(f"pod {pod} cannot be read: {exc}") from exc
    except ApiError as exc:
        if not exc.not_found:
            raise
        raise PodGoneError(f"pod {pod} does not exist any more") from exc
    if found.metadata.uid != pod.uid:
        raise PodGoneError(f"pod {pod} is another one now (UID {found.metadata.uid}, not {pod.uid})")
    return found
