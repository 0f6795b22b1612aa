"""Holds containers to their shares by NVIDIA's driver: memory limits of cgroups, which its release 615 brings.

The driver refuses memory beyond the limit, whatever the program does, and tells the program that the card has no more.
A limit is one of a container's leaf cgroup and goes with it. The driver would reserve a soft limit in all cgroups above
as well, and is not told when a container ends: what was reserved would stay. So the soft limit is always 0, and nothing
has to be taken back. The shares of a card do not add up to more than the card, so each gets what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.node.discovery.nvml import initialize

_MIB: Final = 2**20
_NO_CONTROLLER: Final = (
    "it counts memory by the kernel's dmem controller, which is not on in the cgroups of containers "
    "(option RmMemacctMode=1 of the driver makes it count by itself)"
)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """What a container may take of a card, in bytes."""

    bdf: str
    cgroup: Path
    amount: int


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The limits that the driver keeps, as read back; `problem` says why it does not keep others, empty for none."""

    held: frozenset[MemoryLimit]
    problem: str = ""


def set_memory_limits(nvml: Any, limits: Iterable[MemoryLimit]) -> LimitResult:
    """Have the driver hold containers to their shares, and read back whether it does.

    Args:
        nvml: the module `pynvml`, not yet initialised.
        limits: of containers that run.
    """
    held: set[MemoryLimit] = set()
    problem = ""
    with initialize(nvml) as works:
        if not works:
            return LimitResult(frozenset(), "the driver is not loaded")
        for limit in limits:
            try:
                handle = nvml.nvmlDeviceGetHandleByPciBusId(limit.bdf)
            except nvml.NVMLError as exc:
                problem = f"it does not find card {limit.bdf}: {exc}"
                continue
            try:
                if _set(nvml, handle, limit):
                    held.add(limit)
            except nvml.NVMLError_NotFound:
                # A container that has ended meanwhile is no problem.
                problem = _NO_CONTROLLER if limit.cgroup.exists() else problem
            except nvml.NVMLError as exc:
                problem = _explain(nvml, exc)
    return LimitResult(frozenset(held), problem)


def find_unsupported(nvml: Any, bdf: str, cgroup: Path) -> str:
    """Return why the driver keeps no memory limits of a card, empty where it does; changes nothing.

    Args:
        nvml: the module `pynvml`, initialised.
        bdf: the card's PCI address.
        cgroup: any cgroup.
    """
    try:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bdf)
        if _has_mig(nvml, handle):
            return "the card is in MIG mode"
        _read(nvml, handle, cgroup)
    except nvml.NVMLError_NotFound:
        return ""
    except nvml.NVMLError as exc:
        return _explain(nvml, exc)
    return ""


def _set(nvml: Any, handle: Any, limit: MemoryLimit) -> bool:
    if _has_mig(nvml, handle):
        return False
    hard = max(1, limit.amount // _MIB) * _MIB
    if _read(nvml, handle, limit.cgroup) != (0, hard):
        wanted = nvml.c_nvmlSetMemoryLimits_v1_t(str(limit.cgroup).encode(), 0, hard)
        nvml.nvmlDeviceSetMemoryLimits_v1(handle, wanted)
    soft, kept = _read(nvml, handle, limit.cgroup)
    return soft == 0 and 0 < kept <= hard


def _read(nvml: Any, handle: Any, cgroup: Path) -> tuple[int, int]:
    found = nvml.c_nvmlGetMemoryLimits_v1_t(str(cgroup).encode())
    nvml.nvmlDeviceGetMemoryLimits_v1(handle, found)
    return int(found.softLimit), int(found.hardLimit)


def _has_mig(nvml: Any, handle: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        # Cards that cannot be parted say so by an error.
        return False
    return bool(current)


def _explain(nvml: Any, error: Exception) -> str:
    if isinstance(error, nvml.NVMLError_FunctionNotFound | nvml.NVMLError_NotSupported):
        return "the driver keeps no memory limits of cgroups, which its release 615 brings on cgroup v2"
    if isinstance(error, nvml.NVMLError_NoPermission):
        return "the driver does not let this agent set memory limits"
    return str(error)
