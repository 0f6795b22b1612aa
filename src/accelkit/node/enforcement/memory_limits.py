"""Memory limits for cgroups in NVIDIA's driver (release 615 and later), which limit containers to their shares.

The driver denies allocations beyond the limit, and reports the limit to the program as the memory of the card. A limit
is set on the leaf cgroup of a container and is removed together with the cgroup.

The soft limit is always 0. The driver would reserve the amount of a soft limit in all parent cgroups. It would not
release this amount when a container terminates, because it does not detect the termination. A reservation is
unnecessary, because the total of a card's shares does not exceed the card's memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.node.discovery.nvml import initialize

_MIB: Final = 2**20
_NO_CONTROLLER: Final = (
    "it counts memory with the kernel's dmem controller, which is not enabled in the cgroups of containers. "
    "Enable dmem, or set the driver's option RmMemacctMode=1, with which the driver itself counts memory"
)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The maximum memory of a card that a container may use, in bytes."""

    bdf: str
    cgroup: Path
    amount: int


@dataclass(frozen=True, slots=True)
class LimitResult:
    """The limits that the driver applies. `problem` is the reason why some are not applied, or empty."""

    held: frozenset[MemoryLimit]
    problem: str = ""


def set_memory_limits(nvml: Any, limits: Iterable[MemoryLimit]) -> LimitResult:
    """Set limits in the driver; return the limits that the driver applies.

    Args:
        nvml: the module `pynvml`, which is not initialized yet.
        limits: the limits of running containers.
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
                problem = f"it cannot find card {limit.bdf}: {exc}"
                continue
            try:
                if _set(nvml, handle, limit):
                    held.add(limit)
            except nvml.NVMLError_NotFound:
                # If the cgroup is missing, the container has already terminated, which is not a problem.
                problem = _NO_CONTROLLER if limit.cgroup.exists() else problem
            except nvml.NVMLError as exc:
                problem = _explain(nvml, exc)
    return LimitResult(frozenset(held), problem)


def find_unsupported(nvml: Any, bdf: str, cgroup: Path) -> str:
    """Return the reason why the driver cannot limit the memory of a card; empty if it can. No limit is changed.

    Args:
        nvml: the initialized module `pynvml`.
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
        desired = nvml.c_nvmlSetMemoryLimits_v1_t(str(limit.cgroup).encode(), 0, hard)
        nvml.nvmlDeviceSetMemoryLimits_v1(handle, desired)
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
        # Cards that do not support MIG return an error.
        return False
    return bool(current)


def _explain(nvml: Any, error: Exception) -> str:
    if isinstance(error, nvml.NVMLError_FunctionNotFound | nvml.NVMLError_NotSupported):
        return "the driver does not support memory limits of cgroups, which require release 615 and cgroup v2"
    if isinstance(error, nvml.NVMLError_NoPermission):
        return "the driver does not permit this agent to set memory limits"
    return str(error)
