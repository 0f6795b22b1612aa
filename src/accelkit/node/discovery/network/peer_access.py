"""What decides whether a network card may reach a card's memory directly (GPUDirect RDMA): facts, or unknown.

`peer_obstacles` says what of them speaks against it.
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
# From this version on the kernel lets RDMA devices take memory that a driver exports as a dma-buf.
_DMA_BUF_SINCE: Final = (5, 12)
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")
# PCI Express: extended capabilities begin here, ACS is one of them, and these bits send peers' requests upwards.
_EXTENDED: Final = 0x100
_ACS: Final = 0x000D
_ACS_CONTROL: Final = 6
_REDIRECT: Final = 0b0000_1100


class Iommu(StrEnum):
    """What the IOMMU does with a card's addresses."""

    OFF = "off"
    PASSTHROUGH = "passthrough"
    TRANSLATED = "translated"


class PeerAccess(msgspec.Struct, frozen=True):
    """The facts of a host and its cards; None is unknown, and not no.

    Attributes:
        peer_module: whether NVIDIA's module for it is loaded.
        kernel_dma_buf: whether the kernel takes dma-bufs for RDMA.
        iommu: by address of the card.
        redirected: by address of the card, whether a bridge above it sends what peers ask for up to the root (ACS).
    """

    peer_module: bool | None
    kernel_dma_buf: bool | None
    iommu: dict[str, Iommu | None]
    redirected: dict[str, bool | None]


def read_peer_access(root: Path, addresses: Iterable[str]) -> PeerAccess:
    """Read the facts.

    Args:
        root: the host's root folder.
        addresses: PCI addresses of its cards.
    """
    cards = sorted(addresses)
    return PeerAccess(
        peer_module=_is_loaded(root, _PEER_MODULE),
        kernel_dma_buf=_takes_dma_buf(root),
        iommu={bdf: _read_iommu(root, bdf) for bdf in cards},
        redirected={bdf: _is_redirected(root, bdf) for bdf in cards},
    )


def _is_loaded(root: Path, module: str) -> bool | None:
    modules = root / "sys/module"
    # In a container that is not shown the folder, no module would seem to be loaded.
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
    """Return whether a bridge redirects, by its configuration space; who has too few rights sees 64 bytes of it."""
    try:
        content = config.read_bytes()
    except OSError:
        return None
    if len(content) < _EXTENDED + 4:
        return None
    place, seen = _EXTENDED, set[int]()
    while place and place not in seen and place + 8 <= len(content):
        seen.add(place)
        header = int.from_bytes(content[place : place + 4], "little")
        if header & 0xFFFF == _ACS:
            control = int.from_bytes(content[place + _ACS_CONTROL : place + _ACS_CONTROL + 2], "little")
            return bool(control & _REDIRECT)
        place = header >> 20
    return False
