"""Device IDs name their card: `<card>` for a whole card, `<card>::<number>` for one unit of its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card

_SEPARATOR = "::"


def list_memory_ids(card: Card, unit_bytes: int) -> list[str]:
    """Return the IDs of a card's memory, one per whole unit; none where its memory is unknown."""
    return [build_memory_id(card.id, number) for number in range(card.capacity_bytes // unit_bytes)]


def build_memory_id(card: str, number: int) -> str:
    """Return the ID of one unit of a card's memory."""
    return f"{card}{_SEPARATOR}{number}"


def parse_card_id(device_id: str) -> str:
    """Return the card that an ID names."""
    return device_id.partition(_SEPARATOR)[0]


def count_by_card(device_ids: Iterable[str]) -> Counter[str]:
    """Count IDs by card."""
    return Counter(parse_card_id(device_id) for device_id in device_ids)


def pick(available: Sequence[str], taken: Sequence[str], wanted: Counter[str]) -> list[str]:
    """Choose IDs so that each card contributes as many as `wanted` says, those already taken first.

    Returns fewer where a card has not enough: what is available is the kubelet's to say.

    Raises:
        DevicePluginError: the IDs already taken lie on other cards, or are more than wanted.
    """
    chosen = list(taken)
    missing = wanted - count_by_card(taken)
    if count_by_card(taken) - wanted:
        raise DevicePluginError("the devices that must be included lie on other cards than those assigned")
    for device_id in sorted(set(available) - set(taken), key=_order):
        card = parse_card_id(device_id)
        if missing[card] > 0:
            missing[card] -= 1
            chosen.append(device_id)
    return chosen


def _order(device_id: str) -> tuple[str, int]:
    card, _, number = device_id.partition(_SEPARATOR)
    return card, int(number or 0)
