"""Has the pods leave that use a vendor's cards, by the eviction API, the lowest priority first, until a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.enablement.drivers.reading import read_driver_node
from accelkit.enablement.drivers.reasons import REASONS
from accelkit.enablement.drivers.upgrading.waves import BoundPod, CardUsers, Waves, plan_waves
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.evictions import evict
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS
from accelkit.texts import list_some, shorten
from accelkit.vendors.dialects import load_usable_dialects
from accelkit.vendors.profiles import load_usable_profiles

POLL_SECONDS: Final = 2.0


class Drained(msgspec.Struct, frozen=True):
    """What a drain did; names as `namespace/name`.

    Attributes:
        evicted: in the order in which they were asked; in check mode, who would be.
        staying: who would come back at once, so that nobody evicted them.
    """

    evicted: tuple[str, ...]
    staying: tuple[str, ...]


async def drain_cards(
    api: ApiClient,
    name: str,
    vendor: str,
    *,
    seconds: float,
    check: bool = False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Drained:
    """Evict the pods of a node that use cards of a vendor, and wait until they are gone.

    A budget that forbids an eviction is asked again until the deadline. Pods of higher priority are not asked before
    those of lower are gone.

    Args:
        api: an open client.
        name: of the node.
        vendor: of the cards; empty for all.
        seconds: how long it may take.
        check: evict nobody.
        sleep: waits between two looks.
        clock: seconds that only grow.

    Raises:
        ServiceError: pods are there still at the deadline; the sentence names them, and what the API server said.
        ApiError: the API server refused, or did not answer until the deadline.
    """
    node = await read_driver_node(api, name)
    shared = [resource for dialect in load_usable_dialects() for resource in dialect.resources.asking]
    users = CardUsers(vendor, node.cards, load_usable_profiles().profiles, shared)
    deadline = clock() + seconds
    evicted, refused = dict[str, None](), dict[str, str]()
    if check:
        return _preview(await _list_pods(api, name), users)
    while True:
        waves = plan_waves(await _list_pods(api, name), users)
        if not waves.next:
            return Drained(tuple(evicted), _name(waves.staying))
        for pod in waves.next:
            if not pod.leaving:
                refused.pop(str(pod.ref), None)
                if (why := await _ask(api, pod)) is not None:
                    refused[str(pod.ref)] = why
                else:
                    evicted[str(pod.ref)] = None
        if clock() >= deadline:
            raise _describe(name, waves, refused, seconds)
        await sleep(POLL_SECONDS)


async def _list_pods(api: ApiClient, name: str) -> list[BoundPod]:
    return (await list_all(api, PODS, BoundPod, query={"fieldSelector": f"spec.nodeName={name}"}))[0]


def _preview(pods: list[BoundPod], users: CardUsers) -> Drained:
    left, going = pods, list[BoundPod]()
    while (waves := plan_waves(left, users)).next:
        going += waves.next
        gone = {pod.metadata.uid for pod in going}
        left = [pod for pod in pods if pod.metadata.uid not in gone]
    return Drained(_name(going), _name(waves.staying))


async def _ask(api: ApiClient, pod: BoundPod) -> str | None:
    """Ask for an eviction; returns why it is not done yet, None where it is."""
    try:
        await evict(api, pod.ref)
    except ApiError as exc:
        # It is gone, or another pod has its name.
        if exc.not_found or exc.conflict:
            return None
        if exc.status == HTTPStatus.TOO_MANY_REQUESTS or exc.unanswered:
            return shorten(exc.message)
        raise
    return None


def _describe(name: str, waves: Waves, refused: dict[str, str], seconds: float) -> ServiceError:
    why = f": {next(iter(refused.values()))}" if refused else ""
    later = f", and {waves.later} of higher priority were not asked yet" if waves.later else ""
    return ServiceError(
        f"after {seconds:g} s pods use cards of node {name} still ({list_some(_name(waves.next))}{later}){why}",
        next_step=REASONS["PodsRemain"],
    )


def _name(pods: tuple[BoundPod, ...] | list[BoundPod]) -> tuple[str, ...]:
    return tuple(str(pod.ref) for pod in pods)
