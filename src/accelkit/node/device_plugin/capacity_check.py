"""Check that prevents allocations beyond a card's capacity, even if containers have devices in a different unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin.pending_allocations import Devices
from accelkit.node.devices import DeviceIds
from accelkit.node.kubelet import HeldDevices


class ContainerHolding(NamedTuple):
    """The devices of one container: their IDs, the number of devices per card, and their total memory in bytes."""

    device_ids: Sequence[str]
    devices: Mapping[str, int]
    memory_bytes: int


def list_holdings(
    pods: Iterable[AssignedPod], held: HeldDevices, counts: Mapping[tuple[str, str, str], Devices], *, unit_bytes: int
) -> list[ContainerHolding]:
    """Return the devices of each container, with their memory from the assignment, or computed from the current unit.

    Args:
        pods: the pods of this node.
        held: the devices of each container.
        counts: the number of devices on each card, by container.
        unit_bytes: the current memory of one device.
    """
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    found = []
    for (namespace, name, container), ids in held.items():
        assigned = by_name[namespace, name].sum_memory_bytes(container) if (namespace, name) in by_name else 0
        found.append(ContainerHolding(ids, counts[namespace, name, container], assigned or len(ids) * unit_bytes))
    return found


def compute_device_bytes(holdings: Iterable[ContainerHolding], cards: Collection[str]) -> dict[str, int]:
    """Return the size of each device, in bytes, for the containers that have devices on these cards.

    Args:
        holdings: the devices of all containers. A device that a container reuses from an init container occurs twice,
            but only the larger amount is counted.
        cards: the cards whose devices are returned, because a node may have 100,000 devices on other cards.
    """
    sizes: dict[str, int] = {}
    for holding in holdings:
        if holding.devices.keys().isdisjoint(cards):
            continue
        each = holding.memory_bytes // len(holding.device_ids)
        for device_id in holding.device_ids:
            sizes[device_id] = max(sizes.get(device_id, 0), each)
    return sizes


def check_capacity(
    device_ids: Sequence[str],
    cards: Sequence[Card],
    held: Mapping[str, int],
    *,
    unit_bytes: int,
    other_bytes: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Raise an error if an allocation of these devices would exceed the capacity of a card.

    The kubelet can choose such devices only after the unit has changed. A container that started with a coarser unit
    has more memory than its number of devices indicates.

    Args:
        device_ids: the device IDs that the kubelet chose.
        cards: the cards of this node.
        held: the size, in bytes, of each allocated device on the cards of `device_ids`.
        unit_bytes: the size of each device in `device_ids`, in bytes.
        other_bytes: the memory that is allocated through other resources, by card.

    Raises:
        DevicePluginError: a card does not have enough remaining memory for these devices.
    """
    sizes = {**held, **{device_id: max(unit_bytes, held.get(device_id, 0)) for device_id in device_ids}}
    capacity = {card.id: card.capacity_bytes for card in cards}
    ids = DeviceIds(capacity)
    totals: Counter[str] = Counter()
    for device_id, amount in sizes.items():
        totals[ids.find_card(device_id)] += amount
    for card in sorted(ids.count_by_card(device_ids)):
        used = totals[card] + other_bytes.get(card, 0)
        # Cards that do not exist on this node are refused by `build_container_response`.
        if used > capacity.get(card, used):
            raise DevicePluginError(
                f"card {card} would be over capacity: containers would hold {used:,} of its {capacity[card]:,} bytes",
                next_step="let kube-scheduler place the pod, because the extender accounts for the memory",
            )
