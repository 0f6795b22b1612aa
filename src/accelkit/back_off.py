"""Exponential back-off: how long to wait after a failure."""

from __future__ import annotations

from typing import NamedTuple

# 2**1023 is the largest power that a float holds.
_MOST_DOUBLINGS = 1000


class BackOff(NamedTuple):
    """Delays in seconds that double with each consecutive failure, from the first delay to the longest."""

    first_seconds: float
    longest_seconds: float

    def compute(self, failures: int) -> float:
        """Return how many seconds to wait after this number of consecutive failures, which is at least 1."""
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return min(self.longest_seconds, self.first_seconds * 2.0**doublings)
