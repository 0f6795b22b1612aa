"""Bounds how many pods are evicted, and how often for one; no I/O."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from accelkit.back_off import BackOff

# Evictions within any minute.
MOST_EVICTIONS: Final = 30
_MINUTE: Final = 60.0
# Before the next try for a pod for which there was no way, and for one for which others were evicted.
RETRY_SECONDS: Final = 10.0
_AFTER_EVICTIONS: Final = BackOff(120.0, 3600.0)
# Of so many pods the pauses are remembered.
_MOST_PODS: Final = 1000


class Pace:
    """The pauses between evictions.

    Args:
        clock: seconds on a clock that never jumps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._evicted = deque[float]()
        self._not_before: dict[str, tuple[float, int]] = {}

    def may_evict(self, count: int) -> bool:
        """Return whether so many pods may be evicted now; of the first in a minute, any number."""
        while self._evicted and self._clock() - self._evicted[0] > _MINUTE:
            self._evicted.popleft()
        return not self._evicted or len(self._evicted) + count <= MOST_EVICTIONS

    def may_try(self, uid: str) -> bool:
        """Return whether a pod may be looked after again."""
        return self._clock() >= self._not_before.get(uid, (0.0, 0))[0]

    def note_evicted(self) -> None:
        """Note that a pod was evicted."""
        self._evicted.append(self._clock())

    def note_tried(self, uid: str, *, evicted: bool) -> None:
        """Note that a pod was looked after; the pause grows with each time that others were evicted for it."""
        _, times = self._not_before.pop(uid, (0.0, 0))
        if len(self._not_before) >= _MOST_PODS:
            del self._not_before[next(iter(self._not_before))]
        pause = _AFTER_EVICTIONS.compute(times + 1) if evicted else RETRY_SECONDS
        self._not_before[uid] = self._clock() + pause, times + evicted
