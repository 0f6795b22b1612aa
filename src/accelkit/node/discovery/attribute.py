"""One card's facts from the sources that its profile names: the first that knows wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from accelkit.model.units import MAX_AMOUNT
from accelkit.node.discovery.host import Host
from accelkit.node.discovery.nvml import NvmlCard
from accelkit.node.discovery.sysfs import first, number, text, trailing_number
from accelkit.vendors.profiles import PciDiscovery
from accelkit.vendors.sources import (
    FromDmem,
    FromEntry,
    FromFacts,
    FromFile,
    FromKfd,
    FromNvml,
    MemorySource,
    NumberSource,
    TextSource,
)

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Device:
    """A PCI device that is a card, `facts` and `nvml` being what its driver and library say of it."""

    bdf: str
    folder: Path
    device_id: str
    discovery: PciDiscovery
    facts: Mapping[str, str]
    nvml: NvmlCard | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Amounts in bytes, None when unknown; `source` is who said it, `estimated` whether of the kind of card only."""

    total_bytes: int | None = None
    reserved_bytes: int | None = None
    source: str = ""
    estimated: bool = False


def read_identity(device: Device) -> str:
    """Return the name by which the vendor's tools know the card for good, or nothing."""
    return next((found for found in _texts(device.discovery.identity, device, "uuid") if _names_one_card(found)), "")


def read_model(device: Device) -> str:
    """Return the model, or the PCI ids where nobody knows it."""
    found = next(filter(None, _texts(device.discovery.model, device, "name")), "")
    return found or f"{device.discovery.vendor}:{device.device_id}"


def read_number(sources: Iterable[NumberSource], device: Device) -> int | None:
    """Return the driver's number of a card, or None."""
    return next((found for source in sources if (found := _number(source, device)) is not None), None)


def read_memory(device: Device, host: Host) -> Memory:
    """Return how much memory the card has by the first source that knows; nothing at all is unknown, never 0."""
    for source in device.discovery.memory:
        found = _memory(source, device, host)
        if found.total_bytes is not None and 0 < found.total_bytes <= MAX_AMOUNT:
            return found
    return Memory()


def _texts(sources: Iterable[TextSource], device: Device, attribute: str) -> Iterable[str]:
    for source in sources:
        if isinstance(source, FromNvml):
            yield getattr(device.nvml, attribute, "")
        elif isinstance(source, FromFacts):
            yield device.facts.get(source.key, "")
        elif isinstance(source, FromFile):
            path = first(device.folder, source.path)
            found = "" if path is None else text(path)
            yield source.pattern.format(found) if found else ""
        else:
            known = device.discovery.models.get(device.device_id)
            yield known.name if known else ""


def _names_one_card(identity: str) -> bool:
    # A driver writes question marks before it has asked the card, and zeros where the card has no number.
    digits = identity.rpartition("GPU-")[2].replace("-", "")
    return bool(digits.strip("0")) and "?" not in identity


def _number(source: NumberSource, device: Device) -> int | None:
    if isinstance(source, FromNvml):
        return device.nvml.minor if device.nvml else None
    if isinstance(source, FromEntry):
        return trailing_number(device.folder, source.path)
    found = device.facts.get(source.key, "")
    return int(found) if found.isdecimal() else None


def _memory(source: MemorySource, device: Device, host: Host) -> Memory:
    if isinstance(source, FromNvml):
        known = device.nvml or NvmlCard()
        return Memory(known.memory_bytes, known.reserved_bytes, "nvml")
    if isinstance(source, FromFile):
        path = first(device.folder, source.path)
        return Memory(None if path is None else number(path), source="sysfs")
    if isinstance(source, FromDmem):
        return Memory(host.dmem.get(device.bdf), source="dmem")
    if isinstance(source, FromKfd):
        kfd = host.kfd.get(device.bdf)
        return Memory(kfd.memory_bytes if kfd else None, source="kfd")
    model = device.discovery.models.get(device.device_id)
    mib = model.memory_mib if model else None
    return Memory(None if mib is None else mib * _MIB, source="table", estimated=True)
