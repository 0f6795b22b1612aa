"""Checks that no card is given away beyond its capacity, also where containers hold devices of another unit."""

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


class Holding(NamedTuple):
    """The devices of a container, how many they are by card, and what they are worth together, in bytes."""

    device_ids: Sequence[str]
    devices: Mapping[str, int]
    worth_bytes: int


def list_holdings(
    pods: Iterable[AssignedPod], held: HeldDevices, counts: Mapping[tuple[str, str, str], Devices], *, unit_bytes: int
) -> list[Holding]:
    """Return what containers hold, worth what was assigned, else the unit of this time.

    Args:
        pods: this node's pods.
        held: the devices of each container.
        counts: the same by card.
        unit_bytes: what a device is worth now.
    """
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    found = []
    for (namespace, name, container), ids in held.items():
        worth = by_name[namespace, name].sum_memory_bytes(container) if (namespace, name) in by_name else 0
        found.append(Holding(ids, counts[namespace, name, container], worth or len(ids) * unit_bytes))
    return found


def compute_device_bytes(holdings: Iterable[Holding], cards: Collection[str]) -> dict[str, int]:
    """Return what each device of the containers that hold devices of these cards is worth, in bytes.

    Args:
        holdings: of all containers. Devices that an init container passed on come up twice and count once, as the most
            that either says.
        cards: of interest; a node may have 100,000 devices of others.
    """
    worth: dict[str, int] = {}
    for holding in holdings:
        if holding.devices.keys().isdisjoint(cards):
            continue
        each = holding.worth_bytes // len(holding.device_ids)
        for device_id in holding.device_ids:
            worth[device_id] = max(worth.get(device_id, 0), each)
    return worth


def check_capacity(
    device_ids: Sequence[str],
    cards: Sequence[Card],
    held: Mapping[str, int],
    *,
    unit_bytes: int,
    beside: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Refuse devices that would put a card over its capacity.

    As long as the unit never changed the kubelet cannot choose such; a container from the time of a coarser unit holds
    more than its number of devices tells.

    Args:
        device_ids: what the kubelet chose.
        cards: this node's cards.
        held: what each device that containers hold of the cards of `device_ids` is worth, in bytes.
        unit_bytes: what one of `device_ids` is worth.
        beside: what containers hold of each card by other resources, in bytes.

    Raises:
        DevicePluginError: a card has not that much left.
    """
    worth = {**held, **{device_id: max(unit_bytes, held.get(device_id, 0)) for device_id in device_ids}}
    capacity = {card.id: card.capacity_bytes for card in cards}
    ids = DeviceIds(capacity)
    totals: Counter[str] = Counter()
    for device_id, amount in worth.items():
        totals[ids.find_card(device_id)] += amount
    for card in sorted(ids.count_by_card(device_ids)):
        used = totals[card] + beside.get(card, 0)
        # A card that this node does not have is refused by name, elsewhere.
        if used > capacity.get(card, used):
            raise DevicePluginError(
                f"card {card} would be over capacity: containers would hold {used:,} of its {capacity[card]:,} bytes",
                next_step="the scheduler accounts for that; let it place the pod",
            )
