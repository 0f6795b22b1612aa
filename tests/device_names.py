"""Names of devices, for tests that speak as a kubelet."""

from __future__ import annotations

from accelkit.node.devices import DeviceIds


def unit(card: str, number: int) -> str:
    """Return the ID of one unit of a card's memory."""
    return DeviceIds([card]).build_memory_id(card, number)
