"""One reading of a card: its measures at one moment, in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardReading:
    """The measures of a card. A measure that could not be read is None, not zero.

    Attributes:
        utilization_ratio: the fraction of time, from 0 to 1, during which the card was busy in approximately the last
            second.
        memory_used_bytes: the total memory that all processes use.
        memory_total_bytes: the total memory of the card, from the same source.
        temperature_celsius: the temperature of the chip, or of its junction if only the junction temperature is known.
        power_watts: the current power draw, or its average over the last second.
        energy_joules: the energy that the card has consumed since its driver was loaded.
        sm_clock_hertz: the clock frequency of its compute units.
        memory_clock_hertz: the clock frequency of its memory.
        ecc_corrected: the number of corrected memory errors.
        ecc_uncorrected: the number of uncorrected memory errors.
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
