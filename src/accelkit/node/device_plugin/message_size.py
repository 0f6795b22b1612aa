"""How long the kubelet's list of a node's memory gets, computed without making it.

The kubelet takes the devices of a resource in one message of at most 4,194,304 bytes and drops a plugin whose list is
longer. A list of millions of devices is refused here before it costs the memory to make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.model.units import UNITS, parse_size, unit_name
from accelkit.node.devices import memory_id
from accelkit.node.kubelet import MAX_MESSAGE_BYTES

# A list that only fits as long as every card is well would fail on the day one falls ill.
_HEALTH = "Unhealthy"


def list_bytes(cards: Sequence[Card], unit_bytes: int) -> int:
    """Return the bytes of the kubelet's list of all memory of these cards, all of them unhealthy: its longest form."""
    total = 0
    for card in cards:
        fixed = _field(len(_HEALTH)) + _topology_bytes(card)
        for digits, count in _numbers(card.capacity_bytes // unit_bytes):
            id_bytes = len(memory_id(card.id, 0).encode()) - 1 + digits
            total += count * _field(_field(id_bytes) + fixed)
    return total


def check_list(cards: Sequence[Card], unit_bytes: int) -> None:
    """Refuse a unit in which the cards' memory is too many devices for the kubelet.

    Raises:
        DevicePluginError: with the smallest unit that works for these cards.
    """
    size = list_bytes(cards, unit_bytes)
    if size <= MAX_MESSAGE_BYTES:
        return
    devices = sum(card.capacity_bytes // unit_bytes for card in cards)
    fitting = smallest_unit(cards)
    raise DevicePluginError(
        f"in units of {unit_name(unit_bytes)} the memory of this node's {len(cards)} cards is {devices:,} devices, a "
        f"list of {size:,} bytes; the kubelet takes {MAX_MESSAGE_BYTES:,}",
        next_step=f"the smallest unit that works here is {fitting}" if fitting else "no unit works here",
    )


def smallest_unit(cards: Sequence[Card]) -> str | None:
    """Return the smallest unit of the list that works for these cards; None where none does."""
    return next((name for name in reversed(UNITS) if list_bytes(cards, parse_size(name)) <= MAX_MESSAGE_BYTES), None)


def _topology_bytes(card: Card) -> int:
    if card.numa is None:
        return 0
    # The default value of a field is not written.
    node = 0 if card.numa == 0 else 1 + _varint(card.numa)
    return _field(_field(node))


def _numbers(count: int) -> Iterator[tuple[int, int]]:
    """Yield how many of the numbers below `count` have how many digits, as (digits, how many)."""
    digits, first = 1, 0
    while first < count:
        end = 10**digits
        yield digits, min(end, count) - first
        digits, first = digits + 1, end


def _field(length: int) -> int:
    """Return the bytes of a text or message of this length as a field: tag, length, content."""
    return 1 + _varint(length) + length


def _varint(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)
