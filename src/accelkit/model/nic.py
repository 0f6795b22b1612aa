"""The network cards (NICs) of a node and their proximity to each card, for reports and placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.topology import Nearness

# The maximum number of NICs in the inventory of a node. NICs with RDMA are listed first.
MAX_NICS: Final = 32
MAX_NIC_NAME: Final = 32
# Devices with this proximity share a root complex, so transfers between them do not cross the link between processors.
_NEAR: Final = frozenset({Nearness.PCI_SWITCH.value, Nearness.PCI_MULTI.value, Nearness.HOST_BRIDGE.value})
_ORDER: Final = {each.value: place for place, each in enumerate(Nearness)}


class Nic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A network card: a physical function on the PCI bus.

    Attributes:
        bdf: the PCI address.
        name: the name of its network interface, such as `ens1f0`; empty if there is none.
        rdma: the name of its RDMA device, such as `mlx5_0`; empty if there is none.
        infiniband: whether it is an InfiniBand adapter, by its PCI class.
        numa: the NUMA node; None if unknown.
        pci_root: the PCI root complex, such as `pci0000:00`; empty if unknown.
        virtual_functions: the number of its virtual functions.
    """

    bdf: str
    name: str = ""
    rdma: str = ""
    infiniband: bool = False
    numa: int | None = None
    pci_root: str = ""
    virtual_functions: int = 0


class Network(msgspec.Struct, frozen=True):
    """The NICs of a node, as the node agent publishes them.

    Attributes:
        nics: the NICs, at most `MAX_NICS`.
        nearness: one string for each card, in the order of the inventory, with the letter of a `Nearness` for each NIC.
    """

    nics: tuple[Nic, ...]
    nearness: tuple[str, ...]


def find_nearest_nics(network: Network, card: int) -> tuple[Nic, ...]:
    """Return the NICs that are nearest to a card; empty if the proximity of all NICs is unknown.

    Args:
        network: the network of the node.
        card: the position of the card in the inventory.
    """
    row = network.nearness[card] if card < len(network.nearness) else ""
    nearest = rate_nearest(row)
    return tuple(nic for nic, letter in zip(network.nics, row, strict=False) if nearest and letter == nearest)


def rate_nearest(row: str | Sequence[str]) -> str:
    """Return the letter of the nearest NIC from a card's row; empty if the proximity of all NICs is unknown."""
    known = [letter for letter in row if letter in _ORDER and letter != Nearness.UNKNOWN]
    return min(known, key=_ORDER.__getitem__, default="")


def is_near(letter: str) -> bool:
    """Return whether a card shares a PCI root complex with a NIC, based on the letter of the nearest NIC."""
    return letter in _NEAR
