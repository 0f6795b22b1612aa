"""One reading of a card: what it does at a moment, in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardReading:
    """What a card does; None is what could not be read, which is not zero.

    Attributes:
        utilization_ratio: in how much of the last second or so it computed, from 0 to 1.
        memory_used_bytes: of its memory, by all programs together.
        memory_total_bytes: what the same source says that it has.
        temperature_celsius: of the chip; the junction's where only that is known.
        power_watts: what it draws now, or did on average over the last second.
        energy_joules: what it has drawn since its driver was loaded.
        sm_clock_hertz: of what computes.
        memory_clock_hertz: of its memory.
        ecc_corrected: errors of its memories that were corrected.
        ecc_uncorrected: those that were not.
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
