"""Reader of facts from AMD's compute driver (KFD): the memory of cards, and the XGMI links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelkit.node.discovery.sysfs import list_entries, read_key_values

_NODES = "sys/class/kfd/kfd/topology/nodes"
# Constants of the kernel's interface: the types of the heaps of card memory (visible or invisible to the host) and of a
# link.
_CARD_HEAPS = frozenset({1, 2})
_XGMI = 11


@dataclass(frozen=True, slots=True)
class KfdPart:
    """A partition of a card, with its own render node.

    Attributes:
        number: the number of the partition within its card.
        render: the number of its render node.
        memory_bytes: its memory; None if unknown.
    """

    number: int
    render: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class KfdCard:
    """One card, as the compute driver reports it.

    Attributes:
        memory_bytes: its memory; None if unknown.
        linked: the PCI addresses of the cards to which it has XGMI links.
        hive: the number of its XGMI hive, or 0 if it does not belong to a hive.
        parts: its partitions by number, if each partition has its own render node; empty for a card without partitions.
    """

    memory_bytes: int | None
    linked: frozenset[str]
    hive: int
    parts: tuple[KfdPart, ...] = ()


def read_kfd(root: Path) -> Mapping[str, KfdCard]:
    """Return the cards, keyed by PCI address with the function number set to 0; empty if the driver is not loaded.

    Raises:
        DevicePluginError: the driver's folder cannot be listed.
    """
    folders = {folder.name: folder for folder in list_entries(root / _NODES)}
    addresses = {name: bdf for name, folder in folders.items() if (bdf := _read_address(folder))}
    cards: dict[str, KfdCard] = {}
    parts: dict[str, list[KfdPart | None]] = {}
    for name, bdf in addresses.items():
        folder, before = folders[name], cards.get(bdf)
        memory = _read_memory(folder)
        parts.setdefault(bdf, []).append(_read_part(folder, memory))
        linked = frozenset(
            addresses[end]
            for link in list_entries(folder / "io_links")
            if _read_integer(properties := read_key_values(link / "properties", None), "type") == _XGMI
            and (end := properties.get("node_to", "")) in addresses
        ) - {bdf}
        if before is not None:
            # A partitioned card has one node per partition.
            memory = None if memory is None or before.memory_bytes is None else memory + before.memory_bytes
            linked |= before.linked
        hive = _read_integer(read_key_values(folder / "properties", None), "hive_id") or 0
        cards[bdf] = KfdCard(memory, linked, hive)
    return {bdf: replace(card, parts=_sort_parts(parts[bdf])) for bdf, card in cards.items()}


def _sort_parts(found: Sequence[KfdPart | None]) -> tuple[KfdPart, ...]:
    parts = sorted((each for each in found if each is not None), key=lambda each: (each.number, each.render))
    # A part without its own render node cannot be allocated separately.
    separate = len(parts) == len(found) == len({each.render for each in parts}) == len({each.number for each in parts})
    return tuple(parts) if separate and len(parts) > 1 else ()


def _read_part(folder: Path, memory: int | None) -> KfdPart | None:
    properties = read_key_values(folder / "properties", None)
    location, render = _read_integer(properties, "location_id"), _read_integer(properties, "drm_render_minor")
    # The driver reports the number of the partition in place of the PCI function. Later releases report it in the four
    # highest bits.
    number = None if location is None else (location & 0x7) or location >> 28 & 0xF
    return KfdPart(number, render, memory) if number is not None and render and render > 0 else None


def _read_address(folder: Path) -> str | None:
    properties = read_key_values(folder / "properties", None)
    location = _read_integer(properties, "location_id")
    # The node of a processor has no SIMD units.
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
