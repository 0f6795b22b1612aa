"""One reading of a card, with its measures at one moment, in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardReading:
    """The measures of a card. A measure that could not be read is None, not zero.

    Attributes:
        utilization_ratio: the fraction of approximately the last second during which it was busy, from 0 to 1.
        memory_used_bytes: the memory that all processes use in total.
        memory_total_bytes: its total memory, from the same source.
        temperature_celsius: the temperature of the chip, or of its junction if only the latter is known.
        power_watts: the current power draw, or its average over the last second.
        energy_joules: the energy that it has consumed since its driver was loaded.
        sm_clock_hertz: the clock of its compute units.
        memory_clock_hertz: the clock of its memory.
        ecc_corrected: the number of corrected errors in its memories.
        ecc_uncorrected: the number of uncorrected errors in its memories.
    """

    utilization_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    ecc_corrected: float | None = None
    ecc_uncorrected: float | None = None
