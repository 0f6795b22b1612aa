"""Nearness of two cards on a node: one scale for all vendors, and the matrix of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Nearness(StrEnum):
    """Nearness of two cards, from the nearest to the farthest; the value is the letter in the inventory's matrix.

    FABRIC_DIRECT is a link from card to card (NVLink, XGMI, Xe-link), and FABRIC_SWITCHED a link through a switch.
    PCI_SWITCH is one PCI switch, PCI_MULTI several PCI switches, HOST_BRIDGE the same root complex, NUMA the same NUMA
    node, and CROSS_NUMA different NUMA nodes. UNKNOWN means that the nearness could not be detected. Such cards may be
    near each other.
    """

    SAME = "X"
    FABRIC_DIRECT = "D"
    FABRIC_SWITCHED = "W"
    PCI_SWITCH = "S"
    PCI_MULTI = "M"
    HOST_BRIDGE = "H"
    NUMA = "N"
    CROSS_NUMA = "C"
    UNKNOWN = "?"


# Kinds of `Link`, as their vendors name them, and the nearness of two cards with such a link.
NVLINK: Final = "NVLink"
NVSWITCH: Final = "NVSwitch"
XGMI: Final = "XGMI"
XGMI_HIVE: Final = "XGMI hive"
XE_LINK: Final = "Xe-link"
FABRICS: Final[Mapping[str, Nearness]] = {
    NVLINK: Nearness.FABRIC_DIRECT,
    NVSWITCH: Nearness.FABRIC_SWITCHED,
    XGMI: Nearness.FABRIC_DIRECT,
    # The two cards are in one hive but have no direct link: other cards forward the transfers.
    XGMI_HIVE: Nearness.FABRIC_SWITCHED,
    XE_LINK: Nearness.FABRIC_DIRECT,
}
