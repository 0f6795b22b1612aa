"""Reader of a card's measures from NVIDIA's management library.

If the card or the driver does not support a call, the measure is unknown, but the other measures are still read.
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
    """Return the measures of the card at a PCI address.

    The library is closed after this call, because a longer session would keep the card open, even after its driver
    restarts.

    Args:
        nvml: the module `pynvml`, which is not initialized yet.
        bdf: the PCI address, such as `0000:3b:00.0`.
    """
    with initialize(nvml) as works:
        handle = _call(nvml, "nvmlDeviceGetHandleByPciBusId", bdf) if works else None
        return CardReading() if handle is None else _read(nvml, handle)


def _read(nvml: Any, handle: Any) -> CardReading:
    def call(name: str, *arguments: Any) -> Any:
        return _call(nvml, name, handle, *arguments)

    def count_ecc(kind: str) -> float | None:
        # Read the error counters for the lifetime of the card, because the volatile counters are reset when the driver
        # is loaded.
        return _scale(call("nvmlDeviceGetTotalEccErrors", getattr(nvml, kind), nvml.NVML_AGGREGATE_ECC))

    memory = call("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2)
    if memory is None:
        # Drivers before release 510 support only the first version of the call, in which the used memory includes the
        # driver's memory.
        memory = call("nvmlDeviceGetMemoryInfo")
    busy = call("nvmlDeviceGetUtilizationRates")
    return CardReading(
        utilization_ratio=_scale(getattr(busy, "gpu", None), divide=_PERCENT),
        memory_used_bytes=_scale(getattr(memory, "used", None)),
        memory_total_bytes=_scale(getattr(memory, "total", None)),
        temperature_celsius=_scale(call("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)),
        power_watts=_scale(call("nvmlDeviceGetPowerUsage"), divide=_MILLI),
        energy_joules=_scale(call("nvmlDeviceGetTotalEnergyConsumption"), divide=_MILLI),
        sm_clock_hertz=_scale(call("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), multiply=_MEGA),
        memory_clock_hertz=_scale(call("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), multiply=_MEGA),
        ecc_corrected=count_ecc("NVML_MEMORY_ERROR_TYPE_CORRECTED"),
        ecc_uncorrected=count_ecc("NVML_MEMORY_ERROR_TYPE_UNCORRECTED"),
    )


def _call(nvml: Any, name: str, *arguments: Any) -> Any:
    call: Callable[..., Any] | None = getattr(nvml, name, None)
    try:
        return None if call is None else call(*arguments)
    except nvml.NVMLError:
        return None


def _scale(value: int | None, *, multiply: int = 1, divide: int = 1) -> float | None:
    return None if value is None else value * multiply / divide
