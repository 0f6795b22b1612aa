"""Card sources, which read facts about cards. Profiles refer to a source by its name, for example `{from: nvml}`.

Another Python distribution can add a source through an entry point in the group `accelkit.memory_sources` that refers
to a `CardSource` class. Profiles refer to this source by the name of the entry point, for memory and for other
facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from accelkit.errors import AccelkitError, DevicePluginError, ProfileError
from accelkit.node.discovery.host import Host
from accelkit.node.discovery.nvml import NvmlCard
from accelkit.node.discovery.partitions import Partition
from accelkit.node.discovery.sysfs import find_first, find_trailing_number, read_integer, read_text
from accelkit.plugins.catalogue import Plugin, find_plugin, list_plugin_names
from accelkit.plugins.interface import MEMORY_SOURCES
from accelkit.vendors.fact_sources import Source
from accelkit.vendors.profiles import PciDiscovery

_Fact = TypeVar("_Fact")
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Device:
    """A PCI device that is a card.

    Attributes:
        facts: the facts from its driver's file.
        nvml: the facts from NVIDIA's library.
        partition: the part of the device, if this card is a part; None for a card without parts.
    """

    host: Host
    bdf: str
    folder: Path
    device_id: str
    discovery: PciDiscovery
    facts: Mapping[str, str]
    nvml: NvmlCard | None
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of memory in bytes, with its source.

    Attributes:
        reserved_bytes: the memory that the driver and firmware reserve; None if it is unknown.
        estimated: whether the amount was derived from the model of the card instead of read from the card.
    """

    total_bytes: int
    source: str
    reserved_bytes: int | None = None
    estimated: bool = False


class CardSource:
    """A source of facts about cards. Subclasses override the methods for the facts that they can read.

    A method returns None if the fact is unknown.

    Args:
        source: the entry in the profile.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def read_identity(self, device: Device) -> str | None:
        """Return the card's permanent name in the vendor's tools."""
        return self.read_model(device)

    def read_model(self, device: Device) -> str | None:
        """Return the card's model."""

    def read_number(self, device: Device) -> int | None:
        """Return the number that the driver assigned to the card."""

    def read_memory(self, device: Device) -> Memory | None:
        """Return the memory of the card."""


class _Facts(CardSource):
    """A key in the profile's `facts` file, which contains `key: value` lines."""

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
    """The number at the end of an entry's name (such as `drm/card*`) below the device's sysfs folder."""

    def read_number(self, device: Device) -> int | None:
        return find_trailing_number(device.folder, self.source.path)


class _Nvml(CardSource):
    """NVIDIA's management library, if it can be loaded."""

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
    """The kernel's controller for device memory."""

    def read_memory(self, device: Device) -> Memory | None:
        found = device.host.dmem.get(device.bdf)
        return None if found is None else Memory(found, self.source.name)


class _Kfd(CardSource):
    """The topology that AMD's compute driver exports."""

    def read_memory(self, device: Device) -> Memory | None:
        found = device.host.kfd.get(device.bdf)
        return None if found is None or found.memory_bytes is None else Memory(found.memory_bytes, self.source.name)


class _Table(CardSource):
    """The field `models` of the profile, which contains facts about models, not about individual cards."""

    def read_model(self, device: Device) -> str | None:
        known = device.discovery.models.get(device.device_id)
        return known.name if known else None

    def read_memory(self, device: Device) -> Memory | None:
        known = device.discovery.models.get(device.device_id)
        # The table contains the memory of a whole card, and a part has less memory.
        if known is None or known.memory_mib is None or device.partition is not None:
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


def list_card_source_names() -> list[str]:
    """Return the sorted names of all card sources, including sources from other distributions, without loading them."""
    return sorted({*_OURS, *list_plugin_names(MEMORY_SOURCES)})


@cache
def load_card_source(name: str) -> type[CardSource]:
    """Return the card source with this name.

    Raises:
        ProfileError: no installed distribution provides this source.
        PluginError: the source comes from another distribution and cannot be used.
    """
    plugin = find_plugin(MEMORY_SOURCES, name, _OURS.keys())
    if plugin is not None:
        return _load_plugged(plugin)
    if name in _OURS:
        return _OURS[name]
    raise ProfileError(
        f"unknown card source {name} in a profile; the sources are {', '.join(list_card_source_names())}",
        next_step=f"install the distribution that provides {name} as an entry point of {MEMORY_SOURCES}",
    )


def read_from_sources(
    sources: Iterable[Source], device: Device, read: Callable[[CardSource], _Fact | None]
) -> Iterator[_Fact | None]:
    """Yield the value from each source in a profile, in order; None if a source does not provide the value.

    Raises:
        ProfileError: no installed distribution provides a source.
        PluginError: a source comes from another distribution and cannot be used.
        DevicePluginError: a source failed, so the facts about the card are unknown, not missing.
    """
    for source in sources:
        try:
            yield read(load_card_source(source.name)(source))
        except AccelkitError:
            raise
        except Exception as exc:
            plugin = find_plugin(MEMORY_SOURCES, source.name, ())
            raise DevicePluginError(
                f"the memory source {source.name} of {plugin.origin if plugin else 'accelkit'} failed on card "
                f"{device.bdf}: {type(exc).__name__}: {exc}"
            ) from exc


def _load_plugged(plugin: Plugin) -> type[CardSource]:
    found = plugin.load()
    if not isinstance(found, type) or not issubclass(found, CardSource):
        raise plugin.build_error(f"is not a subclass of {CardSource.__module__}.CardSource")
    return found
