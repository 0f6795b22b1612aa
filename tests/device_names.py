"""Names of devices, for tests that speak as a kubelet."""

from __future__ import annotations

from accelkit.node.devices import DeviceIds


def unit(card: str, number: int) -> str:
    """Return the ID of one unit of a card's memory."""
    return DeviceIds([card]).build_memory_id(card, number)


def units(card: str, first: int, count: int) -> list[str]:
    """Return the IDs of so many units of a card's memory from a number on."""
    return [unit(card, number) for number in range(first, first + count)]
