"""Writes Bindings with their annotations, and reads the pods that they are about."""

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
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.holding import NodeEntry
from accelkit.model.assignment import Assignment, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod, PodRef
from accelkit.vendors.annotations import Granted, write_container_limits
from accelkit.vendors.pod_reading import CardPod

log = logging.getLogger(__name__)

_P = TypeVar("_P", bound=Pod)

# The API server gives up on a write after this long.
WRITE_SECONDS: Final = 5
# A Binding leaves within this time, or not at all.
SEND_SECONDS: Final = 6.0
# For so long after it was killed a Binding of a predecessor may still appear.
PREDECESSOR_SECONDS: Final = WRITE_SECONDS + 1.0

_pod = msgspec.json.Decoder(Pod)


async def write_binding(
    api: ApiClient, pod: PodRef, node: str, annotations: Mapping[str, str], *, version: str = ""
) -> None:
    """Bind a pod to a node and annotate it, in one transaction of the API server.

    Args:
        api: an open client.
        pod: which.
        node: where it goes.
        annotations: what is written on it.
        version: the resource version that the pod must have; empty for any.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    metadata: dict[str, object] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if annotations:
        metadata["annotations"] = annotations
    if version:
        metadata["resourceVersion"] = version
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    try:
        # No byte of it leaves later: whoever binds after us counts on that.
        async with asyncio.timeout(SEND_SECONDS):
            await api.post(
                f"{build_pod_path(pod.namespace, pod.name)}/binding", binding, query={"timeout": f"{WRITE_SECONDS}s"}
            )
    except TimeoutError as exc:
        raise ApiError(f"no answer within {SEND_SECONDS:.0f} s") from exc


async def read_pod(api: ApiClient, pod: PodRef) -> Pod:
    """Return the pod with this UID.

    Raises:
        PodGoneError: it does not exist any more.
        ApiError: the API server refused or did not answer.
    """
    return await read_pod_as(api, pod, _pod)


async def read_pod_as(api: ApiClient, pod: PodRef, decoder: msgspec.json.Decoder[_P]) -> _P:
    """Return the pod with this UID, as a type of pod with more fields.

    Raises:
        PodGoneError: it does not exist any more.
        ApiError: the API server refused or did not answer, or with what cannot be read.
    """
    try:
        found = decoder.decode(await api.get(build_pod_path(pod.namespace, pod.name)))
    except UNREADABLE as exc:
        raise ApiError(f"pod {pod} cannot be read: {exc}") from exc
    except ApiError as exc:
        if not exc.not_found:
            raise
        raise PodGoneError(f"pod {pod} does not exist any more") from exc
    if found.metadata.uid != pod.uid:
        raise PodGoneError(f"pod {pod} is another one now (UID {found.metadata.uid}, not {pod.uid})")
    return found


def build_annotations(
    pod: CardPod, entry: NodeEntry | None, assignment: Assignment, *, limits: bool = False
) -> dict[str, str]:
    """Return what is written on a pod with its Binding: its assignment, also in the words of its dialect.

    Args:
        pod: whose it is.
        entry: its node; None where that is not known any more.
        assignment: the cards that it gets.
        limits: whether what each container may take of NVIDIA's cards is written, too.
    """
    ours = {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)}
    codec = pod.dialect.annotations
    if entry is None or entry.inventory is None:
        return ours
    cards = {card.id: card for card in entry.list_cards()}
    if limits:
        ours = {**write_container_limits(assignment, cards), **ours}
    if codec is None:
        return ours
    granted = Granted(assignment, pod.app_containers, cards, entry.inventory.unit_bytes)
    try:
        # All keys, so that nothing a user put there before counts.
        return {**dict.fromkeys(codec.keys, ""), **codec.write(granted, time.time_ns()), **ours}
    except AssignmentError as exc:
        log.warning("pod %s is not written as %s does: %s", pod.ref, pod.dialect.name, exc)
        return ours
