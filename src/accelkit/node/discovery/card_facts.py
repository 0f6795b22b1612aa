"""Reader of the facts about a card, from the sources in its profile. The first source with a value takes precedence."""

from __future__ import annotations

from collections.abc import Iterable

from accelkit.model.units import MAX_AMOUNT
from accelkit.node.discovery.card_sources import CardSource, Device, Memory, read_from_sources
from accelkit.vendors.fact_sources import Source


def read_identity(device: Device) -> str | None:
    """Return the card's permanent name in the vendor's tools; None if no source provides it."""
    found = read_from_sources(device.discovery.identity, device, lambda source: source.read_identity(device))
    return next((name for name in found if name and _names_one_card(name)), None)


def read_model(device: Device) -> str:
    """Return the model, or the PCI IDs if no source provides the model."""
    suffix = device.partition.suffix if device.partition else ""
    found = read_from_sources(device.discovery.model, device, lambda source: source.read_model(device))
    return next(filter(None, found), f"{device.discovery.vendor}:{device.device_id}") + suffix


def read_number(sources: Iterable[Source], device: Device) -> int | None:
    """Return the number that the driver assigned to a card, or None if it is unknown."""
    found = read_from_sources(sources, device, lambda source: source.read_number(device))
    return next((number for number in found if number is not None), None)


def read_minor(device: Device) -> int | None:
    """Return the driver's number that is part of the names of a card's device nodes, or None if it is unknown."""
    part = device.partition
    return part.minor if part and part.kfd else read_number(device.discovery.minor, device)


def read_render(device: Device) -> int | None:
    """Return the number of a card's render node, or None if it is unknown."""
    part = device.partition
    return part.kfd.render if part and part.kfd else read_number(device.discovery.render, device)


def read_memory(device: Device) -> Memory | None:
    """Return the memory of the card from the first source that provides it; None (not 0) if it is unknown."""
    part = device.partition.kfd if device.partition else None
    if part is not None:
        # The driver's files contain the memory of the whole card.
        return Memory(part.memory_bytes, "kfd") if part.memory_bytes and part.memory_bytes <= MAX_AMOUNT else None
    found = read_from_sources(device.discovery.memory, device, lambda source: _read_memory(source, device))
    return next((memory for memory in found if memory and 0 < memory.total_bytes <= MAX_AMOUNT), None)


def _read_memory(source: CardSource, device: Device) -> Memory | None:
    memory = source.read_memory(device)
    if memory is not None and not (isinstance(memory, Memory) and isinstance(memory.total_bytes, int)):
        raise TypeError(f"its memory is {memory!r}, not a Memory with a whole number of bytes")
    return memory


def _names_one_card(identity: str) -> bool:
    # A driver reports question marks until it has read the identifier from the card, and zeros if the card has none.
    digits = identity.rpartition("GPU-")[2].replace("-", "")
    return bool(digits.strip("0")) and "?" not in identity
