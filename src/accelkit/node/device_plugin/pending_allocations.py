"""Pending allocations: the assigned cards of containers that still wait for their devices.

The kubelet does not identify the pod in a request, and it may serve two containers of equal size in an unexpected
order. Therefore, pending allocations are not attributed to containers: they are all assigned devices minus all
allocated devices. If a container gets the cards of another container, the other container can get the cards of the
first container, so the sums are always correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from accelkit.node.assigned_pod import AssignedPod, Key

Devices = Mapping[str, int]  # devices by card
Wait = tuple[Key, Counter[str]]  # a waiting container, and its assigned devices by card
_Cards = tuple[tuple[str, int], ...]


def list_assigned_cards(pods: Sequence[AssignedPod], *, whole: bool) -> dict[str, str | None]:
    """Return the cards that were assigned, either whole or in shares of memory, each with one of its pods."""
    return {
        share.card: f"{pod.namespace}/{pod.name}"
        for pod in pods
        for shares in pod.assignment.containers.values()
        for share in shares
        if share.whole is whole
    }


def list_pending_allocations(
    pods: Sequence[AssignedPod], held: Mapping[Key, Devices], *, whole: bool, unit_bytes: int
) -> list[Wait]:
    """Return the containers that wait for devices, with their assigned devices, in the order of admission.

    If a container has devices, the containers before it are omitted: the kubelet serves one container after the other,
    and does not list completed init containers. Containers whose memory was assigned in another unit are also omitted,
    because the kubelet would allocate different amounts.
    """
    found: list[Wait] = []
    for pod in sorted(pods, key=lambda pod: pod.order):
        if pod.admitted:
            continue
        for container in pod.containers[_count_served(pod, held) :]:
            devices = pod.count_devices(container, whole=whole)
            same_unit = whole or pod.find_other_unit(container, unit_bytes) is None
            if devices and same_unit:
                found.append(((pod.uid, container), devices))
    return found


def list_moved(
    pods: Sequence[AssignedPod], held: Mapping[Key, Devices], *, whole: bool
) -> list[tuple[Devices, Devices]]:
    """Return pairs of the devices that were assigned to a container and the devices that were allocated to it instead.

    The kubelet does not list completed init containers, so they are treated as moved to the card of the next container.
    """
    moved: list[tuple[Devices, Devices]] = []
    for pod in pods:
        unlisted: list[Counter[str]] = []
        for container in pod.containers[: _count_served(pod, held)]:
            was, now = pod.count_devices(container, whole=whole), held.get((pod.uid, container))
            if now is None:
                unlisted.append(was)
            elif was != now:
                moved.append((was, now))
                if len(was) == len(now) == 1:
                    moved += (
                        (each, {card: each.total() for card in now}) for each in unlisted if each.keys() == was.keys()
                    )
    return moved


def rank_pending_allocations(
    size: int,
    waits: Sequence[Wait],
    moved: Iterable[tuple[Devices, Devices]],
    in_flight: Iterable[Devices],
    answered: Collection[Key],
) -> list[Counter[str]]:
    """Return the pending allocations that the next container of `size` devices may get, the most likely first.

    Args:
        size: the number of requested devices.
        waits: the waiting containers, as `list_pending_allocations` returns them.
        moved: the assigned devices of containers, and the devices that were allocated to them instead.
        in_flight: the devices in responses that the kubelet does not report as allocated yet.
        answered: the containers that have devices, or that probably got a response.
    """
    requested = [_key(devices) for _, devices in waits if devices.total() == size]
    pool = Counter(requested)
    swaps = [(_key(was), _key(now)) for was, now in moved if sum(was.values()) == size]
    pool.update(was for was, _ in swaps)
    for was, now in swaps:
        # If the cards in `now` were not assigned to another container, no other container needs the cards in `was` in
        # exchange.
        pool[now if pool[now] > 0 else was] -= 1
    for devices in in_flight:
        if sum(devices.values()) == size:
            taken = _key(devices)
            left = taken if pool[taken] > 0 else next((cards for cards in reversed(requested) if pool[cards] > 0), None)
            if left is not None:
                pool[left] -= 1
    order: list[_Cards | None] = []
    for _, devices in sort_by_expected_order(waits, answered):
        if devices.total() == size:
            cards = _key(devices)
            order.append(cards if pool[cards] > 0 else None)
            pool[cards] -= pool[cards] > 0
    # If another container got the cards of a container, the container gets the remaining cards in exchange.
    rest = sorted(cards for cards, count in pool.items() for _ in range(count))
    ranked = [cards if cards is not None else rest.pop(0) for cards in order if cards is not None or rest]
    return [Counter(dict(cards)) for cards in (*ranked, *rest)]


def sort_by_expected_order(waits: Sequence[Wait], answered: Collection[Key]) -> list[Wait]:
    """Return the containers without a response, in the order in which the kubelet probably requests their devices.

    The kubelet admits one pod at a time and allocates one container after the other. Therefore, the order is: the next
    container of a pod in which some containers have a response, the first container of each other pod, and then the
    remaining containers.

    Args:
        waits: the waiting containers, as `list_pending_allocations` returns them.
        answered: the containers that have devices, or that probably got a response.
    """
    begun = {uid for uid, _ in answered}
    next_of_begun, first, later = list[Wait](), list[Wait](), list[Wait]()
    listed: set[str] = set()
    for wait in waits:
        uid = wait[0][0]
        if wait[0] not in answered:
            (later if uid in listed else next_of_begun if uid in begun else first).append(wait)
            listed.add(uid)
    return [*next_of_begun, *first, *later]


def _count_served(pod: AssignedPod, held: Mapping[Key, Devices]) -> int:
    """Return the number of containers up to the last container that has devices; 0 if no container has devices."""
    holding = [number for number, container in enumerate(pod.containers, 1) if (pod.uid, container) in held]
    return max(holding, default=0)


def _key(devices: Devices) -> _Cards:
    return tuple(sorted((card, count) for card, count in devices.items() if count))
