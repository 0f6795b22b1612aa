"""Which cards are still owed to the containers that wait for their devices.

The kubelet gives no pod identity, so it may take two containers of equal size in another order than expected. What is
owed is therefore counted, not attributed: all that was assigned, less what containers hold, whoever they are. A
container that took another one's slot leaves it its own, so that the cards add up at every moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from accelkit.node.assigned_pod import AssignedPod, Key

Devices = Mapping[str, int]  # devices by card
_Slot = tuple[tuple[str, int], ...]


def waiting(
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
            devices = pod.devices(container, whole=whole, unit_bytes=unit_bytes)
            same_unit = whole or pod.memory_bytes(container) == devices.total() * unit_bytes
            if (pod.uid, container) not in held and devices and same_unit:
                found.append(((pod.uid, container), devices))
    return found


def open_slots(
    size: int,
    waits: Sequence[tuple[Key, Counter[str]]],
    moved: Iterable[tuple[Devices, Devices]],
    in_flight: Iterable[Devices],
) -> list[Counter[str]]:
    """Return the slots that the next container of `size` devices may take, the likeliest first.

    Args:
        size: how many devices are asked for.
        waits: the containers that wait, as `waiting` returns them.
        moved: what containers were assigned and what they hold instead.
        in_flight: what was answered and the kubelet does not show yet.
    """
    wanted = [_slot(devices) for _, devices in waits if devices.total() == size]
    pool = Counter(wanted)
    swaps = [(_slot(was), _slot(now)) for was, now in moved if sum(was.values()) == size]
    pool.update(was for was, _ in swaps)
    for was, now in swaps:
        # A slot that nobody was assigned is nobody's loss; what was left for it is free.
        pool[now if pool[now] > 0 else was] -= 1
    for devices in in_flight:
        if sum(devices.values()) == size:
            taken = _slot(devices)
            left = taken if pool[taken] > 0 else next((slot for slot in reversed(wanted) if pool[slot] > 0), None)
            if left is not None:
                pool[left] -= 1
    order: list[_Slot] = []
    for slot in wanted:
        if pool[slot] > 0:
            pool[slot] -= 1
            order.append(slot)
    order += sorted(slot for slot, count in pool.items() for _ in range(count))
    return [Counter(dict(slot)) for slot in order]


def _slot(devices: Devices) -> _Slot:
    return tuple(sorted((card, count) for card, count in devices.items() if count))
