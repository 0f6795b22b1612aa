"""The network cards (NICs) of a node, and how near each is to each card: for people, and for who prefers near ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.topology import Nearness

# Of a node; those with RDMA come first.
MAX_NICS: Final = 32
MAX_NIC_NAME: Final = 32
# What shares a root complex, so that no transfer between the two crosses the processors' own link.
_NEAR: Final = frozenset({Nearness.PCI_SWITCH.value, Nearness.PCI_MULTI.value, Nearness.HOST_BRIDGE.value})
_ORDER: Final = {each.value: place for place, each in enumerate(Nearness)}


class Nic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A network card: a physical function, as PCI shows it.

    Attributes:
        bdf: PCI address.
        name: of its network interface, as `ens1f0`; empty without one.
        rdma: of its RDMA device, as `mlx5_0`; empty without one.
        infiniband: whether it is an InfiniBand adapter, by its class.
        numa: NUMA node, None when unknown.
        pci_root: PCI root complex as `pci0000:00`, empty when unknown.
        virtual_functions: how many it is split into.
    """

    bdf: str
    name: str = ""
    rdma: str = ""
    infiniband: bool = False
    numa: int | None = None
    pci_root: str = ""
    virtual_functions: int = 0


class Network(msgspec.Struct, frozen=True):
    """What the node agent publishes of a node's NICs.

    Attributes:
        nics: at most MAX_NICS.
        nearness: for each card of the inventory in its order, the letter of a `Nearness` for each NIC.
    """

    nics: tuple[Nic, ...]
    nearness: tuple[str, ...]


def find_nearest_nics(network: Network, card: int) -> tuple[Nic, ...]:
    """Return the NICs than which none is nearer to a card; none where it is unknown how near any is.

    Args:
        network: of the node.
        card: the card's place in the inventory.
    """
    row = network.nearness[card] if card < len(network.nearness) else ""
    nearest = rate_nearest(row)
    return tuple(nic for nic, letter in zip(network.nics, row, strict=False) if nearest and letter == nearest)


def rate_nearest(row: str | Sequence[str]) -> str:
    """Return the nearest letter of a card's row; empty where none is known."""
    known = [letter for letter in row if letter in _ORDER and letter != Nearness.UNKNOWN]
    return min(known, key=_ORDER.__getitem__, default="")


def is_near(letter: str) -> bool:
    """Whether a card shares a PCI root complex with a NIC, by the letter of the nearest."""
    return letter in _NEAR
