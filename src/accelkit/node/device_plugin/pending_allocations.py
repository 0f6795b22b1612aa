"""Pending allocations: the cards that were assigned to containers which still wait for their devices.

The kubelet gives no pod identity, so it may take two containers of equal size in another order than expected. Pending
allocations are therefore counted, not attributed: all that was assigned, less what containers hold, whoever they are. A
container that took the cards of another one leaves it its own, so that the cards add up at every moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from accelkit.node.assigned_pod import AssignedPod, Key

Devices = Mapping[str, int]  # devices by card
_Cards = tuple[tuple[str, int], ...]


def list_assigned_cards(pods: Sequence[AssignedPod], *, whole: bool) -> dict[str, str | None]:
    """Return the cards that were assigned whole, or of which memory was, with the pods that they were assigned to."""
    return {
        share.card: f"{pod.namespace}/{pod.name}"
        for pod in pods
        for shares in pod.assignment.containers.values()
        for share in shares
        if share.whole is whole
    }


def list_pending_allocations(
    pods: Sequence[AssignedPod], held: Mapping[Key, Devices], *, whole: bool, unit_bytes: int
) -> list[tuple[Key, Counter[str]]]:
    """Return the containers that wait for devices and the devices they were assigned, in the order of admission.

    Containers that were assigned their memory in another unit are left out: the kubelet would give them other amounts.
    """
    found: list[tuple[Key, Counter[str]]] = []
    for pod in sorted(pods, key=lambda pod: pod.order):
        if pod.admitted:
            continue
        for container in pod.containers:
            devices = pod.count_devices(container, whole=whole)
            same_unit = whole or pod.find_other_unit(container, unit_bytes) is None
            if (pod.uid, container) not in held and devices and same_unit:
                found.append(((pod.uid, container), devices))
    return found


def rank_pending_allocations(
    size: int,
    waits: Sequence[tuple[Key, Counter[str]]],
    moved: Iterable[tuple[Devices, Devices]],
    in_flight: Iterable[Devices],
) -> list[Counter[str]]:
    """Return the pending allocations that the next container of `size` devices may take, the likeliest first.

    Args:
        size: how many devices are asked for.
        waits: the containers that wait, as `list_pending_allocations` returns them.
        moved: what containers were assigned and what they hold instead.
        in_flight: what was answered and the kubelet does not show yet.
    """
    wanted = [_key(devices) for _, devices in waits if devices.total() == size]
    pool = Counter(wanted)
    swaps = [(_key(was), _key(now)) for was, now in moved if sum(was.values()) == size]
    pool.update(was for was, _ in swaps)
    for was, now in swaps:
        # Cards that nobody was assigned are missed by nobody; those that were left for them are free.
        pool[now if pool[now] > 0 else was] -= 1
    for devices in in_flight:
        if sum(devices.values()) == size:
            taken = _key(devices)
            left = taken if pool[taken] > 0 else next((cards for cards in reversed(wanted) if pool[cards] > 0), None)
            if left is not None:
                pool[left] -= 1
    order: list[_Cards] = []
    for cards in wanted:
        if pool[cards] > 0:
            pool[cards] -= 1
            order.append(cards)
    order += sorted(cards for cards, count in pool.items() for _ in range(count))
    return [Counter(dict(cards)) for cards in order]


def _key(devices: Devices) -> _Cards:
    return tuple(sorted((card, count) for card, count in devices.items() if count))
