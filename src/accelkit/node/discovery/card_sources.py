"""The table of card sources: who is asked where a profile says `{from: nvml}`, and what each of them knows.

Another distribution adds a source by an entry point in the group `accelkit.card_sources` that names a `CardSource`
class; profiles then name it by the entry point's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from accelkit.errors import ProfileError
from accelkit.node.discovery.host import Host
from accelkit.node.discovery.nvml import NvmlCard
from accelkit.node.discovery.sysfs import find_first, find_trailing_number, read_integer, read_text
from accelkit.vendors.fact_sources import Source
from accelkit.vendors.profiles import PciDiscovery

ENTRY_POINTS: Final = "accelkit.card_sources"
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Device:
    """A PCI device that is a card, `facts` and `nvml` being what its driver and library say of it."""

    host: Host
    bdf: str
    folder: Path
    device_id: str
    discovery: PciDiscovery
    facts: Mapping[str, str]
    nvml: NvmlCard | None


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of memory in bytes and who said it.

    Attributes:
        reserved_bytes: what driver and firmware keep of it; None when unknown.
        estimated: whether it is right for the kind of card only.
    """

    total_bytes: int
    source: str
    reserved_bytes: int | None = None
    estimated: bool = False


class CardSource:
    """A source of facts of cards. Subclasses override what they know; None is that the source does not know.

    Args:
        source: the profile's entry.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def read_identity(self, device: Device) -> str | None:
        """Return the name by which the vendor's tools know the card for good."""
        return self.read_model(device)

    def read_model(self, device: Device) -> str | None:
        """Return the card's model."""

    def read_number(self, device: Device) -> int | None:
        """Return the driver's number of the card."""

    def read_memory(self, device: Device) -> Memory | None:
        """Return how much memory the card has."""


class _Facts(CardSource):
    """A key of the profile's `facts` file of `key: value` lines."""

    def read_model(self, device: Device) -> str | None:
        return device.facts.get(self.source.key)

    def read_number(self, device: Device) -> int | None:
        found = device.facts.get(self.source.key, "")
        return int(found) if found.isdecimal() else None


class _File(CardSource):
    """The content of a file below the device's sysfs folder."""

    def read_model(self, device: Device) -> str | None:
        path = find_first(device.folder, self.source.path)
        found = None if path is None else read_text(path)
        return self.source.pattern.format(found) if found else None

    def read_memory(self, device: Device) -> Memory | None:
        path = find_first(device.folder, self.source.path)
        found = None if path is None else read_integer(path)
        return None if found is None else Memory(found, "sysfs")


class _Entry(CardSource):
    """The number at the end of the name of an entry below the device's sysfs folder, as of `drm/card*`."""

    def read_number(self, device: Device) -> int | None:
        return find_trailing_number(device.folder, self.source.path)


class _Nvml(CardSource):
    """NVIDIA's management library, where it loads."""

    def read_identity(self, device: Device) -> str | None:
        return device.nvml.uuid if device.nvml else None

    def read_model(self, device: Device) -> str | None:
        return device.nvml.name if device.nvml else None

    def read_number(self, device: Device) -> int | None:
        return device.nvml.minor if device.nvml else None

    def read_memory(self, device: Device) -> Memory | None:
        found = device.nvml
        if found is None or found.memory_bytes is None:
            return None
        return Memory(found.memory_bytes, self.source.name, found.reserved_bytes)


class _Dmem(CardSource):
    """The kernel's controller of device memory."""

    def read_memory(self, device: Device) -> Memory | None:
        found = device.host.dmem.get(device.bdf)
        return None if found is None else Memory(found, self.source.name)


class _Kfd(CardSource):
    """The topology of AMD's compute driver."""

    def read_memory(self, device: Device) -> Memory | None:
        found = device.host.kfd.get(device.bdf)
        return None if found is None or found.memory_bytes is None else Memory(found.memory_bytes, self.source.name)


class _Table(CardSource):
    """The profile's own `models`, which know the kind of card and not this one."""

    def read_model(self, device: Device) -> str | None:
        known = device.discovery.models.get(device.device_id)
        return known.name if known else None

    def read_memory(self, device: Device) -> Memory | None:
        known = device.discovery.models.get(device.device_id)
        if known is None or known.memory_mib is None:
            return None
        return Memory(known.memory_mib * _MIB, self.source.name, estimated=True)


_OURS: Final[Mapping[str, type[CardSource]]] = {
    "dmem": _Dmem,
    "entry": _Entry,
    "facts": _Facts,
    "file": _File,
    "kfd": _Kfd,
    "nvml": _Nvml,
    "table": _Table,
}


@cache
def load_card_sources() -> Mapping[str, type[CardSource]]:
    """Return all card sources by name: ours, and those of other distributions.

    Raises:
        ProfileError: another distribution's source has the name of one of ours.
    """
    others = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if taken := sorted(_OURS.keys() & others.keys()):
        raise ProfileError(f"card sources of other distributions have names of accelkit's own: {', '.join(taken)}")
    return {**_OURS, **{name: point.load() for name, point in others.items()}}


def open_card_source(source: Source) -> CardSource:
    """Return what reads a profile's entry.

    Raises:
        ProfileError: no distribution here has a source of this name.
    """
    known = load_card_sources()
    if source.name in known:
        return known[source.name](source)
    raise ProfileError(
        f"a profile names the card source {source.name}, which is none of {', '.join(sorted(known))}",
        next_step=f"install the distribution that has it as an entry point of {ENTRY_POINTS}",
    )
