"""The list of devices that a plugin sends to its kubelet, and its size.

The kubelet accepts the devices of a resource in one message of at most 4,194,304 bytes, and disconnects a plugin whose
list is longer. `check_list` rejects a list of millions of devices without building it, because that would require too
much memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.model.units import UNITS, format_unit
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.devices import BASE, DeviceIds
from accelkit.node.kubelet import MAX_MESSAGE_BYTES
from accelkit.texts import count_cards

HEALTHY = "Healthy"
_UNHEALTHY = "Unhealthy"


def build_device_list(
    cards: Sequence[Card], *, whole: bool, unit_bytes: int, in_use: Collection[str] = (), offered: bool = True
) -> api.ListAndWatchResponse:
    """Return the list of the cards' devices for the kubelet.

    Devices of a card that accepts no new shares are listed as unhealthy. Devices in use remain healthy, because the
    allocatable amount of a node must not be less than the amount that is allocated to its pods. The same applies to all
    cards while the resource is not offered.

    Args:
        cards: the node's cards.
        whole: whether the devices are whole cards, or units of memory.
        unit_bytes: the unit of memory.
        in_use: the IDs of the devices that are allocated to containers.
        offered: whether new pods may get devices.

    Raises:
        DevicePluginError: the message exceeds the size that the kubelet accepts.
    """
    ids, answer = DeviceIds(card.id for card in cards), api.ListAndWatchResponse()
    for card in cards:
        topology = _topology(card)
        for device_id in [card.id] if whole else ids.list_memory_ids(card, unit_bytes):
            # Only a card that is known to be unhealthy is withdrawn. A card of unknown health remains listed.
            health = HEALTHY if (offered and card.placeable) or device_id in in_use else _UNHEALTHY
            answer.devices.append(api.Device(ID=device_id, health=health, topology=topology))
    if answer.ByteSize() > MAX_MESSAGE_BYTES:
        raise DevicePluginError(
            f"the list of {len(answer.devices)} devices has {answer.ByteSize()} bytes, "
            f"but the kubelet accepts only {MAX_MESSAGE_BYTES}",
            next_step="choose a larger unit of memory",
        )
    return answer


def build_held_list(cards: Sequence[Card], held: Iterable[str], *, whole: bool) -> api.ListAndWatchResponse:
    """Return a list of only those devices of these cards that are allocated to containers, in any unit of memory."""
    ids, by_id = DeviceIds(card.id for card in cards), {card.id: card for card in cards}
    devices = (
        api.Device(ID=device_id, health=HEALTHY, topology=_topology(by_id[ids.find_card(device_id)]))
        for device_id in sorted(set(held))
        if ids.owns(device_id, whole=whole)
    )
    return api.ListAndWatchResponse(devices=devices)


def measure_list(cards: Sequence[Card], unit_bytes: int) -> int:
    """Return the size, in bytes, of the list that represents all memory of these cards, without building the list.

    The size is computed as if all devices were unhealthy, which is the longest form. Otherwise, the kubelet would
    reject the list when a card becomes unhealthy.
    """
    ids, total = DeviceIds(card.id for card in cards), 0
    for card in cards:
        topology = _topology(card)
        for number, count in _sample_numbers(card.capacity_bytes // unit_bytes):
            # Devices whose numbers have the same number of digits are encoded in the same number of bytes.
            sample = api.Device(ID=ids.build_memory_id(card.id, number), health=_UNHEALTHY, topology=topology)
            total += count * api.ListAndWatchResponse(devices=[sample]).ByteSize()
    return total


def check_list(cards: Sequence[Card], unit_bytes: int) -> None:
    """Raise an error if this unit splits the memory of the cards into too many devices for the kubelet.

    Raises:
        DevicePluginError: the list is too long. The message contains the smallest unit that works for these cards.
    """
    size = measure_list(cards, unit_bytes)
    if size <= MAX_MESSAGE_BYTES:
        return
    devices = sum(card.capacity_bytes // unit_bytes for card in cards)
    fitting = find_smallest_unit(cards)
    raise DevicePluginError(
        f"a unit of {format_unit(unit_bytes)} splits the memory of {count_cards(len(cards))} into {devices:,} devices; "
        f"the device list has {size:,} bytes, but the kubelet accepts at most {MAX_MESSAGE_BYTES:,} bytes",
        next_step=f"choose at least {fitting}" if fitting else "no supported unit is large enough",
    )


def find_smallest_unit(cards: Sequence[Card]) -> str | None:
    """Return the smallest supported unit that works for these cards; None if no supported unit works."""
    fitting = (name for name, size in reversed(list(UNITS.items())) if measure_list(cards, size) <= MAX_MESSAGE_BYTES)
    return next(fitting, None)


def _topology(card: Card) -> api.TopologyInfo | None:
    return None if card.numa is None else api.TopologyInfo(nodes=[api.NUMANode(ID=card.numa)])


def _sample_numbers(count: int) -> Iterator[tuple[int, int]]:
    """For each number of digits, yield the first number and the count of the numbers that are less than `count`."""
    first, end = 0, BASE
    while first < count:
        yield first, min(end, count) - first
        first, end = end, BASE * end
