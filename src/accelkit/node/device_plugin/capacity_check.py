"""Checks that no card is given away beyond its capacity, also where containers hold devices of another unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node.devices import count_by_card, parse_card_id


def compute_device_bytes(holdings: Iterable[tuple[Sequence[str], int]]) -> dict[str, int]:
    """Return what each device is worth, in bytes.

    Args:
        holdings: the devices of each container and what they are worth together. Devices that an init container passed
            on come up twice and count once, as the most that either says.
    """
    worth: dict[str, int] = {}
    for device_ids, amount in holdings:
        for device_id in device_ids:
            worth[device_id] = max(worth.get(device_id, 0), amount // len(device_ids))
    return worth


def check_capacity(
    device_ids: Sequence[str], cards: Sequence[Card], held: Mapping[str, int], *, unit_bytes: int
) -> None:
    """Refuse devices that would put a card over its capacity.

    As long as the unit never changed the kubelet cannot choose such; a container from the time of a coarser unit holds
    more than its number of devices tells.

    Args:
        device_ids: what the kubelet chose.
        cards: this node's cards.
        held: what each device that containers hold is worth, in bytes.
        unit_bytes: what one of `device_ids` is worth.

    Raises:
        DevicePluginError: a card has not that much left.
    """
    worth = {**held, **{device_id: max(unit_bytes, held.get(device_id, 0)) for device_id in device_ids}}
    capacity = {card.id: card.capacity_bytes for card in cards}
    for card in sorted(count_by_card(device_ids)):
        used = sum(amount for device_id, amount in worth.items() if parse_card_id(device_id) == card)
        # A card that this node does not have is refused by name, elsewhere.
        if used > capacity.get(card, used):
            raise DevicePluginError(
                f"card {card} would be over capacity: containers would hold {used:,} of its {capacity[card]:,} bytes",
                next_step="the scheduler accounts for that; let it place the pod",
            )
