"""Proximity of a host's devices, computed from their links, PCI paths and NUMA nodes.

In a virtual machine with a flat PCI tree, the paths are not meaningful, so the proximity is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from accelkit.model.card import PCI_ADDRESS, Card
from accelkit.model.nic import Nic
from accelkit.model.topology import FABRICS, Nearness
from accelkit.node.discovery.found_card import FoundCard
from accelkit.node.discovery.sysfs import read_text

_BRIDGE = "0x0604"
# The PCI vendors of QEMU, VMware and Hyper-V, whose bridges do not reflect the hardware.
_HYPERVISORS = frozenset({"0x1b36", "0x15ad", "0x1414"})


@dataclass(frozen=True, slots=True)
class PciPath:
    """The path from the root complex to a card. `bridges` lists the address and vendor of each bridge from the root."""

    complex: str
    vendor: str
    bridges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a device. `pci` is true for a PCI device, even if its path is unknown."""

    numa: int | None
    path: PciPath | None
    pci: bool


def compute_topology(root: Path, found: Sequence[FoundCard]) -> tuple[str, ...]:
    """Return the proximity matrix of the cards, in the order of the cards.

    Row i, column j contains the letter of a `Nearness`.
    """
    places = {each.card.id: find_place(root, each.card) for each in found}
    return tuple(
        "".join(_compare_cards(a.card, b.card, places[a.card.id], places[b.card.id]) for b in found) for a in found
    )


def find_place(root: Path, device: Card | Nic) -> Place:
    """Return the location of a device on the host."""
    return Place(device.numa, _read_pci_path(root, device.bdf, device.pci_root), pci=bool(device.bdf))


def compare_places(a: Place, b: Place) -> Nearness:
    """Return the proximity of two devices based only on PCI and NUMA, not on other links."""
    return compare_pci(a.path, b.path) or _compare_numa(a, b)


def _compare_cards(a: Card, b: Card, place_a: Place, place_b: Place) -> Nearness:
    if a.id == b.id:
        return Nearness.SAME
    fabrics = [FABRICS[link.kind] for x, y in ((a, b), (b, a)) for link in x.links if link.to == y.id]
    if fabrics:
        return min(fabrics, key=list(Nearness).index)
    return compare_places(place_a, place_b)


def compare_pci(a: PciPath | None, b: PciPath | None) -> Nearness | None:
    """Return the proximity of two devices in the PCI tree; None if their paths do not determine it."""
    if a is None or b is None or a.complex != b.complex:
        return None
    shared = len([x for x, y in takewhile(lambda pair: pair[0] == pair[1], zip(a.bridges, b.bridges, strict=False))])
    if shared == 0:
        return Nearness.HOST_BRIDGE
    # A bridge from the card's vendor is part of the board, and is not counted.
    apart = max(len([vendor for _, vendor in path.bridges[shared:] if vendor != path.vendor]) for path in (a, b))
    return Nearness.PCI_SWITCH if apart <= 1 else Nearness.PCI_MULTI


def _compare_numa(a: Place, b: Place) -> Nearness:
    if a.numa is None or b.numa is None:
        return Nearness.UNKNOWN
    if a.numa != b.numa:
        return Nearness.CROSS_NUMA
    # A virtual machine with a flat PCI tree usually has one NUMA node, regardless of the hardware.
    flat = a.path is None or b.path is None
    return Nearness.UNKNOWN if flat and (a.pci or b.pci) else Nearness.NUMA


def _read_pci_path(root: Path, bdf: str, pci_root: str) -> PciPath | None:
    if not bdf or not pci_root:
        return None
    folder = (root / "sys/bus/pci/devices" / bdf).resolve()
    above = [parent for parent in reversed(folder.parents) if PCI_ADDRESS.fullmatch(parent.name)]
    bridges = tuple(
        (parent.name, read_text(parent / "vendor") or "")
        for parent in above
        if (read_text(parent / "class") or "").startswith(_BRIDGE)
    )
    if not bridges or any(vendor in _HYPERVISORS for _, vendor in bridges):
        return None
    return PciPath(pci_root, read_text(folder / "vendor") or "", bridges)
