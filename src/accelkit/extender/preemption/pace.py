"""Limits on the number of evictions, and on their frequency for one pod.

This module performs no I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from accelkit.back_off import BackOff

# Maximum number of evictions within one minute.
MOST_EVICTIONS: Final = 30
_MINUTE: Final = 60.0
# Delay before the next attempt for a pod: if no plan was found, and after evictions for the pod.
RETRY_SECONDS: Final = 10.0
_AFTER_EVICTIONS: Final = BackOff(120.0, 3600.0)
# Maximum number of pods whose delays are stored.
_MOST_PODS: Final = 1000


class Pace:
    """Limiter of evictions.

    Args:
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._evicted = deque[float]()
        self._not_before: dict[str, tuple[float, int]] = {}

    def may_evict(self, count: int) -> bool:
        """Return whether this number of pods may be evicted now; the first plan within a minute is always allowed."""
        while self._evicted and self._clock() - self._evicted[0] > _MINUTE:
            self._evicted.popleft()
        return not self._evicted or len(self._evicted) + count <= MOST_EVICTIONS

    def may_try(self, uid: str) -> bool:
        """Return whether a pod may be handled again."""
        return self._clock() >= self._not_before.get(uid, (0.0, 0))[0]

    def note_evicted(self) -> None:
        """Record the eviction of a pod."""
        self._evicted.append(self._clock())

    def note_tried(self, uid: str, *, evicted: bool) -> None:
        """Record that a pod was handled; the delay grows each time other pods are evicted for it."""
        _, times = self._not_before.pop(uid, (0.0, 0))
        if len(self._not_before) >= _MOST_PODS:
            del self._not_before[next(iter(self._not_before))]
        pause = _AFTER_EVICTIONS.compute(times + 1) if evicted else RETRY_SECONDS
        self._not_before[uid] = self._clock() + pause, times + evicted
