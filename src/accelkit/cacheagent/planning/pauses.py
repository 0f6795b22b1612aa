"""Minimum pauses between fetches of a cache, because each change of its mount path makes all nodes fetch it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accelkit.back_off import BackOff

# A few fetches, for example after the correction of a path, cause no pause.
FREE: Final = 4
_BACK_OFF: Final = BackOff(30.0, 3600.0)
_FORGOTTEN_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Pause:
    """Time until a cache may be fetched again.

    Attributes:
        fetches: number of fetches; the count restarts after an hour without a fetch.
        until: end of the pause on the agent's clock.
    """

    fetches: int
    until: float

    def is_over(self, now: float) -> bool:
        """Return whether the pause is over and its count of fetches can be dropped."""
        return now >= self.until + _FORGOTTEN_SECONDS


def extend(former: Pause | None, now: float) -> Pause:
    """Return the pause after a further fetch; each fetch after the first `FREE` fetches doubles the pause."""
    fetches = 1 if former is None or former.is_over(now) else former.fetches + 1
    beyond = fetches - FREE
    return Pause(fetches, now + (_BACK_OFF.compute(beyond + 1) if beyond >= 0 else 0.0))
