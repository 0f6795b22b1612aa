"""Minimum pauses between fetches of one cache, because every node fetches it again when its mount path changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accelkit.back_off import BackOff

# Two digests in a row, or the correction of a wrong path, cause no pause.
FREE: Final = 4
_BACK_OFF: Final = BackOff(30.0, 3600.0)
_FORGOTTEN_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Pause:
    """Time until a cache may be fetched again.

    Attributes:
        fetches: the number of fetches; the count restarts after an hour without a fetch.
        until: a time on the agent's clock.
    """

    fetches: int
    until: float

    def is_over(self, now: float) -> bool:
        """Return whether the pause and its fetches are no longer relevant."""
        return now >= self.until + _FORGOTTEN_SECONDS


def extend(former: Pause | None, now: float) -> Pause:
    """Return the pause after another fetch; it doubles with each fetch beyond the first few."""
    fetches = 1 if former is None or former.is_over(now) else former.fetches + 1
    beyond = fetches - FREE
    return Pause(fetches, now + (_BACK_OFF.compute(beyond + 1) if beyond >= 0 else 0.0))
