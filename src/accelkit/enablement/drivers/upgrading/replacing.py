"""Replacement of a node's driver pods according to the current plan, followed by a wait until the driver works."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from accelkit.enablement.drivers.driver_pods import DriverPod
from accelkit.enablement.drivers.reading import read_driver_node
from accelkit.enablement.drivers.reasons import NEXT_ACTIONS, DriverReason
from accelkit.enablement.drivers.upgrading.validation import validate
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path, build_object_path

POLL_SECONDS: Final = 2.0


class DriverPods(msgspec.Struct, frozen=True):
    """The pods in which a node's drivers run.

    Attributes:
        namespace: the namespace of these pods.
        selector: the label selector of these pods.
        images: the images that these pods must have, one for each vendor.
    """

    namespace: str
    selector: str
    images: tuple[str, ...]


async def wait_for_driver(
    api: ApiClient,
    name: str,
    targets: Mapping[str, str],
    *,
    seconds: float,
    desired: DriverPods | None = None,
    began_at: float = 0.0,
    check: bool = False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Delete pods with other images, and wait until the desired pods are ready and the agent reports the driver.

    Driver DaemonSets replace a pod only after the pod is deleted. Requests without a response are repeated.

    Args:
        api: an open client.
        name: the name of the node.
        targets: the desired version by vendor; an empty string for any version.
        seconds: the time limit.
        desired: the desired driver pods; None if the drivers do not run in pods.
        began_at: the start time of the upgrade in Unix seconds; earlier stage results are ignored.
        check: whether to return the pods without deleting the pods and without waiting.
        sleep: the function that waits between two attempts.
        clock: a monotonic clock, in seconds.

    Returns:
        The deleted pods; in check mode, the pods that would be deleted.

    Raises:
        ServiceError: the driver does not work within the time limit; the message describes the last state.
        ApiError: the API server rejected the request.
    """
    deadline = clock() + seconds
    deleted = dict[str, None]()
    while True:
        try:
            reason, evidence = await _replace(api, name, desired, deleted, check=check)
            if check:
                return list(deleted)
            if not reason:
                reason, evidence = await _validate(api, name, targets, began_at)
        except ApiError as exc:
            if not exc.unanswered:
                raise
            reason, evidence = "Interrupted", exc.message
        if not reason:
            return list(deleted)
        if clock() >= deadline:
            raise ServiceError(
                f"after {seconds:g} s, the driver of node {name} does not work: {reason}: {evidence}",
                next_step=NEXT_ACTIONS[reason],
            )
        await sleep(POLL_SECONDS)


async def _replace(
    api: ApiClient, name: str, desired: DriverPods | None, deleted: dict[str, None], *, check: bool
) -> tuple[DriverReason | None, str]:
    if desired is None or not desired.images:
        return None, ""
    collection = build_collection_path("v1", "pods", desired.namespace)
    query = {"labelSelector": desired.selector, "fieldSelector": f"spec.nodeName={name}"}
    pods, _ = await list_all(api, collection, DriverPod, query=query)
    for pod in pods:
        if pod.image not in desired.images and pod.metadata.deletion_timestamp is None:
            deleted[pod.metadata.name] = None
            if not check:
                await _delete(api, build_object_path(collection, pod.metadata.name), pod.metadata.uid)
    ready = {pod.image for pod in pods if pod.started}
    if waiting := sorted(set(desired.images) - ready):
        return "DriverPodNotReady", f"no driver pod is ready for {', '.join(waiting)}"
    return None, ""


async def _delete(api: ApiClient, path: str, uid: str) -> None:
    try:
        await api.delete(path, {"preconditions": {"uid": uid}})
    except ApiError as exc:
        # The pod was already deleted.
        if not exc.not_found and not exc.conflict:
            raise


async def _validate(
    api: ApiClient, name: str, targets: Mapping[str, str], began_at: float
) -> tuple[DriverReason | None, str]:
    node = await read_driver_node(api, name)
    for vendor, target in sorted(targets.items()):
        if vendor in node.vendors:
            found = validate(node, vendor, target, began_at=began_at)
            if not found.works:
                return found.reason, found.evidence
    return None, ""
