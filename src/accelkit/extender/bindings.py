"""Functions that write Bindings with annotations, and read the bound pods."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from accelkit.errors import ApiError, AssignmentError, PodGoneError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.nesting import decode
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.holding import NodeEntry
from accelkit.model.assignment import Assignment, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod, PodRef
from accelkit.vendors.annotations import Granted, write_container_limits
from accelkit.vendors.pod_reading import CardPod

log = logging.getLogger(__name__)

_P = TypeVar("_P", bound=Pod)

# Maximum time that the API server spends on a write request.
WRITE_SECONDS: Final = 5
# Time within which a Binding must be sent; otherwise, it is not sent.
SEND_SECONDS: Final = 6.0
# Time after the exit of a previous process during which its Bindings may still take effect.
PREDECESSOR_SECONDS: Final = WRITE_SECONDS + 1.0

_pod = msgspec.json.Decoder(Pod)


async def write_binding(
    api: ApiClient, pod: PodRef, node: str, annotations: Mapping[str, str], *, version: str = ""
) -> None:
    """Bind a pod to a node and annotate it, in one transaction of the API server.

    Args:
        api: an open client.
        pod: the pod.
        node: the node.
        annotations: the annotations to set on the pod.
        version: the resource version that the pod must have; empty for any version.

    Raises:
        ApiError: the API server rejected the Binding or did not respond.
    """
    metadata: dict[str, object] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if annotations:
        metadata["annotations"] = annotations
    if version:
        metadata["resourceVersion"] = version
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        # The next leader relies on the fact that nothing is sent after this time.
        async with asyncio.timeout(SEND_SECONDS):
            await api.post(
                f"{build_pod_path(pod.namespace, pod.name)}/binding", binding, query={"timeout": f"{WRITE_SECONDS}s"}
            )
    except TimeoutError as exc:
        raise ApiError(f"no response within {SEND_SECONDS:.0f} s") from exc


async def read_pod(api: ApiClient, pod: PodRef) -> Pod:
    """Return the pod with this UID.

    Raises:
        PodGoneError: the pod no longer exists.
        ApiError: the API server rejected the request or did not respond.
    """
    return await read_pod_as(api, pod, _pod)


async def read_pod_as(api: ApiClient, pod: PodRef, decoder: msgspec.json.Decoder[_P]) -> _P:
    """Return the pod with this UID, decoded as a pod type with more fields.

    Raises:
        PodGoneError: the pod no longer exists.
        ApiError: the API server rejected the request, did not respond, or sent an unreadable response.
    """
    try:
        found = decode(decoder, await api.get(build_pod_path(pod.namespace, pod.name)))
    except UNREADABLE as exc:
        raise ApiError(f"cannot read pod {pod}: {exc}") from exc
    except ApiError as exc:
        if not exc.not_found:
            raise
        raise PodGoneError(f"pod {pod} no longer exists") from exc
    if found.metadata.uid != pod.uid:
        raise PodGoneError(f"pod {pod} has been replaced (UID {found.metadata.uid}, not {pod.uid})")
    return found


def build_annotations(
    pod: CardPod, entry: NodeEntry | None, assignment: Assignment, *, limits: bool = False
) -> dict[str, str]:
    """Return the annotations for a pod's Binding: the assignment in accelkit's format and in its dialect's format.

    Args:
        pod: the pod.
        entry: the node of the pod; None if the node is no longer known.
        assignment: the assignment of the pod.
        limits: whether to write the memory and compute limits of each container on NVIDIA cards.
    """
    own = {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)}
    codec = pod.dialect.annotations
    if entry is None or entry.inventory is None:
        return own
    cards = {card.id: card for card in entry.list_cards()}
    if limits:
        own = {**write_container_limits(assignment, cards), **own}
    if codec is None:
        return own
    granted = Granted(assignment, pod.app_containers, cards, entry.inventory.unit_bytes)
    try:
        # Write all keys, so that values set by users have no effect.
        return {**dict.fromkeys(codec.keys, ""), **codec.write(granted, time.time_ns()), **own}
    except AssignmentError as exc:
        log.warning("cannot write the annotations of pod %s for dialect %s: %s", pod.ref, pod.dialect.name, exc)
        return own
