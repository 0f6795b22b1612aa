"""Minimum pauses between fetches of a cache. After each change to a mount path, all nodes fetch the cache again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from accelkit.back_off import BackOff

# Number of fetches that cause no pause, for example after the correction of a path.
FREE: Final = 4
_BACK_OFF: Final = BackOff(30.0, 3600.0)
_FORGOTTEN_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Pause:
    """Pause until a cache may be fetched again.

    Attributes:
        fetches: number of fetches. The count restarts after one hour without a fetch.
        until: end of the pause on the agent's clock.
    """

    fetches: int
    until: float

    def is_over(self, now: float) -> bool:
        """Return whether the pause has ended and the number of fetches is no longer needed."""
        return now >= self.until + _FORGOTTEN_SECONDS


def extend(former: Pause | None, now: float) -> Pause:
    """Return the pause after another fetch. Each fetch after the first `FREE` fetches doubles the pause."""
    fetches = 1 if former is None or former.is_over(now) else former.fetches + 1
    beyond = fetches - FREE
    return Pause(fetches, now + (_BACK_OFF.compute(beyond + 1) if beyond >= 0 else 0.0))
