"""Reads what a card does from NVIDIA's management library.

A call that the card or the driver does not know leaves its measure unknown, and the others are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.discovery.nvml import initialize

_PERCENT: Final = 100
_MILLI: Final = 1000
_MEGA: Final = 1_000_000


def read_by_nvml(nvml: Any, bdf: str) -> CardReading:
    """Return what the card at a PCI address does.

    The library is opened for as long as it takes: a session that is kept would hold the card open, and outlive a
    restart of its driver.

    Args:
        nvml: the module `pynvml`, not yet initialised.
        bdf: the address as `0000:3b:00.0`.
    """
    with initialize(nvml) as works:
        handle = _ask(nvml, "nvmlDeviceGetHandleByPciBusId", bdf) if works else None
        return CardReading() if handle is None else _read(nvml, handle)


def _read(nvml: Any, handle: Any) -> CardReading:
    def ask(name: str, *arguments: Any) -> Any:
        return _ask(nvml, name, handle, *arguments)

    def count_ecc(kind: str) -> float | None:
        # Those of the card's whole life: what is counted since the driver was loaded is lost with it.
        return _scale(ask("nvmlDeviceGetTotalEccErrors", getattr(nvml, kind), nvml.NVML_AGGREGATE_ECC))

    memory = ask("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2)
    if memory is None:
        # Drivers before 510 know the first version only, whose used memory has the driver's own in it.
        memory = ask("nvmlDeviceGetMemoryInfo")
    busy = ask("nvmlDeviceGetUtilizationRates")
    return CardReading(
        utilization_ratio=_scale(getattr(busy, "gpu", None), divide=_PERCENT),
        memory_used_bytes=_scale(getattr(memory, "used", None)),
        memory_total_bytes=_scale(getattr(memory, "total", None)),
        temperature_celsius=_scale(ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)),
        power_watts=_scale(ask("nvmlDeviceGetPowerUsage"), divide=_MILLI),
        energy_joules=_scale(ask("nvmlDeviceGetTotalEnergyConsumption"), divide=_MILLI),
        sm_clock_hertz=_scale(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), multiply=_MEGA),
        memory_clock_hertz=_scale(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), multiply=_MEGA),
        ecc_corrected=count_ecc("NVML_MEMORY_ERROR_TYPE_CORRECTED"),
        ecc_uncorrected=count_ecc("NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
    )


def _ask(nvml: Any, name: str, *arguments: Any) -> Any:
    call: Callable[..., Any] | None = getattr(nvml, name, None)
    try:
        return None if call is None else call(*arguments)
    except nvml.NVMLError:
        return None


def _scale(value: int | None, *, multiply: int = 1, divide: int = 1) -> float | None:
    return None if value is None else value * multiply / divide
