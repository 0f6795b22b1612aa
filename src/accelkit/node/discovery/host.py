"""Facts about a host that are read once for all of its cards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelkit.node.discovery.files.overrides import Overrides, read_overrides
from accelkit.node.discovery.kfd import KfdCard, read_kfd
from accelkit.node.discovery.nvml import Nvml
from accelkit.node.discovery.sysfs import read_text

DMEM_CAPACITY: Final = "sys/fs/cgroup/dmem.capacity"
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_REGION = re.compile(r"drm/([0-9a-f:.]+)/vram[0-9]*")


@dataclass(frozen=True, slots=True)
class Host:
    """The facts about a host.

    Attributes:
        root: the host's root folder.
        machine: a short name of this machine that survives a reboot; None if the machine ID is missing.
        dmem: the memory of each card in bytes, by PCI address, from the kernel's dmem controller.
        kfd: the cards of AMD's compute driver, by PCI address.
        overrides: the administrator's overrides.
        nvml: NVIDIA's library; None if it is not open.
    """

    root: Path
    machine: str | None
    dmem: Mapping[str, int]
    kfd: Mapping[str, KfdCard]
    overrides: Overrides
    nvml: Nvml | None


def read_host(root: Path, nvml: Nvml | None) -> Host:
    """Read the facts about the host whose files are below a root folder.

    Raises:
        DevicePluginError: an existing folder cannot be listed.
    """
    return Host(root, _name_machine(root), _read_dmem(root), read_kfd(root), read_overrides(root), nvml)


def _name_machine(root: Path) -> str | None:
    found = read_text(root / "etc/machine-id") or ""
    # The machine ID is confidential, so only a hash of it is published.
    return hashlib.sha256(found.encode()).hexdigest()[:8] if _MACHINE_ID.fullmatch(found) else None


def _read_dmem(root: Path) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for line in (read_text(root / DMEM_CAPACITY) or "").splitlines():
        name, _, size = line.partition(" ")
        region = _REGION.fullmatch(name)
        if region and size.isdigit():
            # A card has one memory region per tile.
            sizes[region[1]] = sizes.get(region[1], 0) + int(size)
    return sizes
