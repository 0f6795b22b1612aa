"""Eviction of the pods that use a vendor's cards, in ascending order of priority, within a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.enablement.drivers.reading import read_driver_node
from accelkit.enablement.drivers.reasons import NEXT_ACTIONS
from accelkit.enablement.drivers.upgrading.waves import CardUsers, DrainablePod, Waves, plan_waves
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
    """The result of a drain; pod names have the form `namespace/name`.

    Attributes:
        evicted: the pods that were evicted, in order; in check mode, the pods that would be evicted.
        staying: pods that were not evicted because they would be restarted on the same node.
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
    """Evict the pods on a node that use cards of a vendor, and wait until they no longer exist.

    An eviction that a disruption budget does not allow is retried until the time limit is reached. Pods with a higher
    priority are evicted after the pods with a lower priority have terminated.

    Args:
        api: an open client.
        name: the name of the node.
        vendor: the vendor of the cards; empty for all vendors.
        seconds: the time limit.
        check: whether to list the pods without evicting them.
        sleep: the function that waits between two attempts.
        clock: a monotonic clock, in seconds.

    Raises:
        ServiceError: pods still exist when the time limit is reached; the message lists these pods with the API
            server's response.
        ApiError: the API server rejected a request, or did not respond within the time limit.
    """
    node = await read_driver_node(api, name)
    shared = [resource for dialect in load_usable_dialects() for resource in dialect.resources.requestable]
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
                if (reason := await _evict(api, pod)) is not None:
                    refused[str(pod.ref)] = reason
                else:
                    evicted[str(pod.ref)] = None
        if clock() >= deadline:
            raise _describe(name, waves, refused, seconds)
        await sleep(POLL_SECONDS)


async def _list_pods(api: ApiClient, name: str) -> list[DrainablePod]:
    return (await list_all(api, PODS, DrainablePod, query={"fieldSelector": f"spec.nodeName={name}"}))[0]


def _preview(pods: list[DrainablePod], users: CardUsers) -> Drained:
    left, going = pods, list[DrainablePod]()
    while (waves := plan_waves(left, users)).next:
        going += waves.next
        gone = {pod.metadata.uid for pod in going}
        left = [pod for pod in pods if pod.metadata.uid not in gone]
    return Drained(_name(going), _name(waves.staying))


async def _evict(api: ApiClient, pod: DrainablePod) -> str | None:
    """Try to evict a pod; return the reason if the eviction must be retried, otherwise None."""
    try:
        await evict(api, pod.ref)
    except ApiError as exc:
        # The pod no longer exists, or a new pod has the same name.
        if exc.not_found or exc.conflict:
            return None
        if exc.status == HTTPStatus.TOO_MANY_REQUESTS or exc.unanswered:
            return shorten(exc.message)
        raise
    return None


def _describe(name: str, waves: Waves, refused: dict[str, str], seconds: float) -> ServiceError:
    reason = f": {next(iter(refused.values()))}" if refused else ""
    later = f"; {waves.later} of higher priority have not been evicted yet" if waves.later else ""
    return ServiceError(
        f"after {seconds:g} s, pods still use cards of node {name} ({list_some(_name(waves.next))}{later}){reason}",
        next_step=NEXT_ACTIONS["PodsRemain"],
    )


def _name(pods: tuple[DrainablePod, ...] | list[DrainablePod]) -> tuple[str, ...]:
    return tuple(str(pod.ref) for pod in pods)
