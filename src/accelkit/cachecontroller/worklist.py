"""Schedule of keys. Each key is processed by at most one worker at any time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_RETRY_SECONDS: Final = 1.0

K = TypeVar("K", bound=Hashable)


class Worklist(Generic[K]):
    """Schedule of keys, with the time at which each key is due.

    Args:
        clock: function that returns the seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        # Entries are ordered by time. Entries whose time differs from the time in `_due` are obsolete and skipped.
        self._heap: list[tuple[float, int, K]] = []
        self._numbers = itertools.count()
        self._busy: set[K] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, delay: float = 0.0) -> None:
        """Schedule a key after a delay in seconds, unless it is already due earlier."""
        at = self._clock() + delay
        if at < self._due.get(key, float("inf")):
            self._put(key, at)

    def move(self, key: K, delay: float) -> None:
        """Schedule a key after a delay in seconds, even if it is already due earlier."""
        self._put(key, self._clock() + delay)

    def drop(self, key: K) -> None:
        """Remove a key from the schedule."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Remove all keys from the schedule."""
        self._due.clear()
        self._heap.clear()

    async def take(
        self, *, may: Callable[[K], bool] = lambda _key: True, rank: Callable[[K], int] = lambda _key: 0
    ) -> K:
        """Wait for a due key that no worker is processing, and return it. Call `done` after processing the key.

        Args:
            may: function that returns whether a key may be processed now; it is called after each change and every
                second.
            rank: function that returns the rank of a key, at least 0. The due key with the lowest rank is processed
                first. Among keys with the same rank, the key that was due first is processed first.
        """
        while True:
            self._changed.clear()
            key, wait = self._find(may, rank)
            if key is not None:
                del self._due[key]
                self._busy.add(key)
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _find(self, may: Callable[[K], bool], rank: Callable[[K], int]) -> tuple[K | None, float | None]:
        """Return the next due key and, if no key is due, the maximum time to wait (None to wait for a change)."""
        now = self._clock()
        passed: list[tuple[float, int, K]] = []
        found: K | None = None
        least: int | None = None
        while self._heap and least != 0:
            entry = at, _, key = self._heap[0]
            stale = self._due.get(key) != at
            if not stale and at > now:
                break
            heapq.heappop(self._heap)
            if stale:
                continue
            passed.append(entry)
            if key not in self._busy and may(key) and (least is None or rank(key) < least):
                found, least = key, rank(key)
        following = self._heap[0][0] - now if self._heap else None
        for entry in passed:
            heapq.heappush(self._heap, entry)
        if passed and found is None:
            following = _RETRY_SECONDS if following is None else min(following, _RETRY_SECONDS)
        return found, following

    def _put(self, key: K, at: float) -> None:
        self._due[key] = at
        heapq.heappush(self._heap, (at, next(self._numbers), key))
        self._changed.set()

    def done(self, key: K) -> None:
        """Record that a key from `take` has been processed."""
        self._busy.discard(key)
        self._changed.set()
