"""Exponential back-off: delays after consecutive failures."""

from __future__ import annotations

from typing import NamedTuple

# The largest power of two that a float can represent is 2**1023.
_MOST_DOUBLINGS = 1000


class BackOff(NamedTuple):
    """Back-off with a delay that doubles with each consecutive failure, from the first delay to the longest delay."""

    first_seconds: float
    longest_seconds: float

    def compute(self, failures: int) -> float:
        """Return the delay in seconds after this number of consecutive failures, which is at least 1."""
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings)
