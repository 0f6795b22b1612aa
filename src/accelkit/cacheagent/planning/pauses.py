"""Least pauses between fetches of one cache: each change of its mount path has every node fetch it anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accelkit.back_off import BackOff

# A digest that is published twice in a row, or a path that was wrong, waits for nothing.
FREE: Final = 4
_BACK_OFF: Final = BackOff(30.0, 3600.0)
_FORGOTTEN_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Pause:
    """When a cache may be fetched again.

    Attributes:
        fetches: how many there were, without an hour between two.
        until: on the agent's clock.
    """

    fetches: int
    until: float

    def is_over(self, now: float) -> bool:
        """Return whether it counts no more."""
        return now >= self.until + _FORGOTTEN_SECONDS


def extend(former: Pause | None, now: float) -> Pause:
    """Return the pause after another fetch; it doubles with each beyond the first few."""
    fetches = 1 if former is None or former.is_over(now) else former.fetches + 1
    beyond = fetches - FREE
    return Pause(fetches, now + (_BACK_OFF.compute(beyond + 1) if beyond >= 0 else 0.0))
