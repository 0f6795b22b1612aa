"""Discovery of a host's NICs in sysfs, with their RDMA devices and their proximity to the cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from accelkit.model.nic import MAX_NIC_NAME, MAX_NICS, Network, Nic, rate_nearest
from accelkit.node.discovery.found_card import FoundCard
from accelkit.node.discovery.pci import find_pci_root, read_numa
from accelkit.node.discovery.sysfs import list_entries, read_hex, read_integer
from accelkit.node.discovery.topology import compare_places, find_place

_DEVICES: Final = "sys/bus/pci/devices"
_RDMA: Final = "sys/class/infiniband"
_ETHERNET, _INFINIBAND = "0200", "0207"


def find_nics(root: Path) -> tuple[Nic, ...]:
    """Return at most MAX_NICS NICs of a host, sorted by address, with the RDMA NICs first.

    Virtual functions are omitted, because they have the same location as their physical function and may be numerous.

    Raises:
        DevicePluginError: a required file of a device cannot be read.
    """
    rdma = _find_rdma(root)
    found = [nic for folder in list_entries(root / _DEVICES) if (nic := _read_nic(folder, rdma)) is not None]
    return tuple(sorted(found, key=lambda nic: (not nic.rdma, nic.bdf))[:MAX_NICS])


def compute_network(root: Path, cards: Sequence[FoundCard]) -> Network | None:
    """Return the NICs and their proximity to the cards; None if there are no NICs.

    If any NIC supports RDMA, NICs without RDMA are omitted, because a management port does not transfer the memory of
    cards.

    Raises:
        DevicePluginError: a required file of a device cannot be read.
    """
    found = find_nics(root)
    nics = tuple(nic for nic in found if nic.rdma) or found
    if not nics:
        return None
    places = [find_place(root, nic) for nic in nics]
    card_places = [find_place(root, each.card) for each in cards]
    return Network(nics, tuple("".join(compare_places(card, place) for place in places) for card in card_places))


def place_beside(cards: Sequence[FoundCard], network: Network | None) -> list[FoundCard]:
    """Return copies of the cards, each with the `Nearness` letter of its nearest NIC."""
    rows = network.nearness if network else [""] * len(cards)
    return [card.place_beside(rate_nearest(row)) for card, row in zip(cards, rows, strict=True)]


def _find_rdma(root: Path) -> Mapping[str, str]:
    """Return the name of the first RDMA device of each PCI device, by PCI address."""
    found: dict[str, str] = {}
    for entry in list_entries(root / _RDMA):
        device = entry / "device"
        if device.exists():
            found.setdefault(device.resolve().name, entry.name[:MAX_NIC_NAME])
    return found


def _read_nic(folder: Path, rdma: Mapping[str, str]) -> Nic | None:
    kind = (read_hex(folder / "class") or "")[:4]
    if kind not in {_ETHERNET, _INFINIBAND} or (folder / "physfn").exists():
        return None
    interfaces = list_entries(folder / "net")
    return Nic(
        folder.name,
        name=interfaces[0].name[:MAX_NIC_NAME] if interfaces else "",
        rdma=rdma.get(folder.name, ""),
        infiniband=kind == _INFINIBAND,
        numa=read_numa(folder),
        pci_root=find_pci_root(folder),
        virtual_functions=max(0, read_integer(folder / "sriov_numvfs") or 0),
    )
