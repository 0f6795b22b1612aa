"""Reads AMD's compute driver (KFD): memory of its cards, and which of them XGMI connects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelkit.node.discovery.sysfs import list_entries, read_key_values

_NODES = "sys/class/kfd/kfd/topology/nodes"
# Constants of the kernel's interface: memory that belongs to the card, seen by the host or not, and the kind of link.
_CARD_HEAPS = frozenset({1, 2})
_XGMI = 11


@dataclass(frozen=True, slots=True)
class KfdCard:
    """One card.

    Attributes:
        memory_bytes: None when unknown.
        linked: PCI addresses of the cards at the other ends of its XGMI links.
        hive: the number of its XGMI island, 0 without one.
    """

    memory_bytes: int | None
    linked: frozenset[str]
    hive: int


def read_kfd(root: Path) -> Mapping[str, KfdCard]:
    """Return the cards by PCI address, function 0; none where the driver is not there.

    Raises:
        DevicePluginError: the driver's folder cannot be listed.
    """
    folders = {folder.name: folder for folder in list_entries(root / _NODES)}
    addresses = {name: bdf for name, folder in folders.items() if (bdf := _read_address(folder))}
    cards: dict[str, KfdCard] = {}
    for name, bdf in addresses.items():
        folder, before = folders[name], cards.get(bdf)
        memory = _read_memory(folder)
        linked = frozenset(
            addresses[end]
            for link in list_entries(folder / "io_links")
            if _read_integer(properties := read_key_values(link / "properties", None), "type") == _XGMI
            and (end := properties.get("node_to", "")) in addresses
        ) - {bdf}
        if before is not None:
            # A partitioned card has a node per partition.
            memory = None if memory is None or before.memory_bytes is None else memory + before.memory_bytes
            linked |= before.linked
        hive = _read_integer(read_key_values(folder / "properties", None), "hive_id") or 0
        cards[bdf] = KfdCard(memory, linked, hive)
    return cards


def _read_address(folder: Path) -> str | None:
    properties = read_key_values(folder / "properties", None)
    location = _read_integer(properties, "location_id")
    # A processor's node has no units of its own.
    if not location or not _read_integer(properties, "simd_count"):
        return None
    domain = _read_integer(properties, "domain") or 0
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.0"


def _read_memory(folder: Path) -> int | None:
    banks = [read_key_values(bank / "properties", None) for bank in list_entries(folder / "mem_banks")]
    sizes = [_read_integer(bank, "size_in_bytes") for bank in banks if _read_integer(bank, "heap_type") in _CARD_HEAPS]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _read_integer(properties: Mapping[str, str], key: str) -> int | None:
    try:
        return int(properties.get(key, ""))
    except ValueError:
        return None
