"""Nearness of two cards of a node: one scale for every vendor, and the matrix of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Nearness(StrEnum):
    """From the nearest to the farthest; the value is the letter in the inventory's matrix.

    FABRIC_DIRECT is a link from card to card (NVLink, XGMI, Xe-link), FABRIC_SWITCHED one through that fabric's switch.
    PCI_SWITCH is one PCI switch, PCI_MULTI several, HOST_BRIDGE the same root complex, NUMA the same NUMA node,
    CROSS_NUMA another one. UNKNOWN is not far: nobody could tell.
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


# Kinds of `Link`, by the names their vendors gave them, and how near they bring two cards.
NVLINK: Final = "NVLink"
NVSWITCH: Final = "NVSwitch"
XGMI: Final = "XGMI"
XGMI_HIVE: Final = "XGMI hive"
XE_LINK: Final = "Xe-link"
FABRICS: Final[Mapping[str, Nearness]] = {
    NVLINK: Nearness.FABRIC_DIRECT,
    NVSWITCH: Nearness.FABRIC_SWITCHED,
    XGMI: Nearness.FABRIC_DIRECT,
    # One island, yet no link of their own: other cards pass it on.
    XGMI_HIVE: Nearness.FABRIC_SWITCHED,
    XE_LINK: Nearness.FABRIC_DIRECT,
}
