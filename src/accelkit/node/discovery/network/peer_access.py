"""Facts that determine whether a NIC can directly access a card's memory (GPUDirect RDMA). A fact may be unknown.

`peer_obstacles` derives the obstacles from these facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from accelkit.model.card import PCI_ADDRESS
from accelkit.node.discovery.sysfs import list_entries, read_text

_DEVICES: Final = "sys/bus/pci/devices"
_PEER_MODULE: Final = "nvidia_peermem"
# The first kernel version in which RDMA devices can use memory that a driver exports as a dma-buf.
_DMA_BUF_SINCE: Final = (5, 12)
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
# PCI Express: the offset of the extended capabilities, the ID of ACS, and its bits that redirect peer requests.
_EXTENDED: Final = 0x100
_ACS: Final = 0x000D
_ACS_CONTROL: Final = 6
_REDIRECT: Final = 0b0000_1100


class Iommu(StrEnum):
    """The mode of the IOMMU for a card's addresses."""

    OFF = "off"
    PASSTHROUGH = "passthrough"
    TRANSLATED = "translated"


class PeerAccess(msgspec.Struct, frozen=True):
    """The facts about a host and its cards. None means that a fact is unknown.

    Attributes:
        peer_module: whether NVIDIA's module for peer access is loaded.
        kernel_dma_buf: whether the kernel supports dma-bufs for RDMA.
        iommu: the mode of the IOMMU for each card, by the card's PCI address.
        redirected: whether a bridge above the card redirects peer requests to the root complex (ACS), by the card's PCI
            address.
    """

    peer_module: bool | None
    kernel_dma_buf: bool | None
    iommu: dict[str, Iommu | None]
    redirected: dict[str, bool | None]


def read_peer_access(root: Path, addresses: Iterable[str]) -> PeerAccess:
    """Read the facts about a host and the cards at these PCI addresses."""
    cards = sorted(addresses)
    return PeerAccess(
        peer_module=_is_loaded(root, _PEER_MODULE),
        kernel_dma_buf=_takes_dma_buf(root),
        iommu={bdf: _read_iommu(root, bdf) for bdf in cards},
        redirected={bdf: _is_redirected(root, bdf) for bdf in cards},
    )


def _is_loaded(root: Path, module: str) -> bool | None:
    modules = root / "sys/module"
    # If the container does not have the folder, the loaded modules are unknown.
    return (modules / module).is_dir() if modules.is_dir() else None


def _takes_dma_buf(root: Path) -> bool | None:
    match = _RELEASE.match(read_text(root / "proc/sys/kernel/osrelease") or "")
    return (int(match[1]), int(match[2])) >= _DMA_BUF_SINCE if match else None


def _read_iommu(root: Path, bdf: str) -> Iommu | None:
    kind = read_text(root / _DEVICES / bdf / "iommu_group/type")
    if kind is not None:
        return Iommu.PASSTHROUGH if kind == "identity" else Iommu.TRANSLATED if kind.startswith("DMA") else None
    units = root / "sys/class/iommu"
    return Iommu.OFF if units.is_dir() and not list_entries(units) else None


def _is_redirected(root: Path, bdf: str) -> bool | None:
    folder = (root / _DEVICES / bdf).resolve()
    above = [parent for parent in folder.parents if PCI_ADDRESS.fullmatch(parent.name)]
    found = [_redirects(parent / "config") for parent in above]
    if True in found:
        return True
    return None if None in found or not found else False


def _redirects(config: Path) -> bool | None:
    """Return whether a bridge redirects peer requests; None if it is unknown.

    Without privileges, the result is None, because only 64 bytes of the configuration are readable.
    """
    try:
        content = config.read_bytes()
    except OSError:
        return None
    if len(content) < _EXTENDED + 4:
        return None
    offset, visited = _EXTENDED, set[int]()
    while offset and offset not in visited and offset + 8 <= len(content):
        visited.add(offset)
        header = int.from_bytes(content[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS:
            control = int.from_bytes(content[offset + _ACS_CONTROL : offset + _ACS_CONTROL + 2], "little")
            return bool(control & _REDIRECT)
        offset = header >> 20
    return False
