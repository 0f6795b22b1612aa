"""Proximity of two cards on a node, with one scale for all vendors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Nearness(StrEnum):
    """Proximity of two cards, from the nearest to the farthest. The value is the letter in the inventory's matrix.

    FABRIC_DIRECT means a link from card to card (NVLink, XGMI, Xe-link), and FABRIC_SWITCHED means a link through a
    switch. PCI_SWITCH means one PCI switch, PCI_MULTI several PCI switches, HOST_BRIDGE the same root complex, NUMA the
    same NUMA node, and CROSS_NUMA different NUMA nodes. UNKNOWN means that the proximity could not be detected. Cards
    with an unknown proximity may be near each other.
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


# Kinds of `Link`, as the vendors name them, and the proximity of two cards with such a link.
NVLINK: Final = "NVLink"
NVSWITCH: Final = "NVSwitch"
XGMI: Final = "XGMI"
XGMI_HIVE: Final = "XGMI hive"
XE_LINK: Final = "Xe-link"
FABRICS: Final[Mapping[str, Nearness]] = {
    NVLINK: Nearness.FABRIC_DIRECT,
    NVSWITCH: Nearness.FABRIC_SWITCHED,
    XGMI: Nearness.FABRIC_DIRECT,
    # The two cards are in the same hive but do not have a direct link. Other cards forward their transfers.
    XGMI_HIVE: Nearness.FABRIC_SWITCHED,
    XE_LINK: Nearness.FABRIC_DIRECT,
}
