"""Reads how much memory of NVIDIA's cards each process holds, from the management library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from accelkit.node.discovery.nvml import initialize

# The library's word for an amount that it does not know.
_UNKNOWN = 2**64 - 1
# With MPS the server holds the memory of its clients, which stand in a list of their own.
_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


def read_used_memory(nvml: Any, bdfs: Mapping[str, str]) -> dict[tuple[str, int], int]:
    """Return bytes by card and process id; processes whose memory is not known are left out.

    Args:
        nvml: the module `pynvml`, not yet initialised.
        bdfs: cards by PCI address.
    """
    used: dict[tuple[str, int], int] = {}
    with initialize(nvml) as works:
        for bdf, card in bdfs.items() if works else ():
            with suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByPciBusId(bdf)
                for name in _CALLS:
                    for process in _ask(nvml, getattr(nvml, name, None), handle):
                        amount = process.usedGpuMemory
                        if amount is not None and amount != _UNKNOWN:
                            used[card, int(process.pid)] = max(used.get((card, int(process.pid)), 0), int(amount))
    return used


def _ask(nvml: Any, call: Callable[[Any], list[Any]] | None, handle: Any) -> list[Any]:
    try:
        return call(handle) if call is not None else []
    except nvml.NVMLError:
        return []
