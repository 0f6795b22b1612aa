"""Which caches are to be looked at, and when: each at most once at a time, however often it is named."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Worklist(Generic[K]):
    """Keys with the time at which each is due.

    Args:
        clock: seconds on a clock that never jumps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        self._busy: set[K] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, delay: float = 0.0) -> None:
        """Have a key looked at after a delay in seconds, or earlier where that was asked before."""
        at = self._clock() + delay
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            self._changed.set()

    def move(self, key: K, delay: float) -> None:
        """Have a key looked at after a delay in seconds, whatever was asked before."""
        self._due[key] = self._clock() + delay
        self._changed.set()

    def drop(self, key: K) -> None:
        """Forget a key."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Forget all keys."""
        self._due.clear()

    async def take(self, *, may: Callable[[K], bool] = lambda _key: True) -> K:
        """Wait for a key that is due and not being looked at; `done` must follow.

        Args:
            may: whether a key may be taken now; asked again when something changes.
        """
        while True:
            self._changed.clear()
            now = self._clock()
            free = [(at, key) for key, at in self._due.items() if key not in self._busy and may(key)]
            at, key = min(free, key=lambda each: each[0], default=(None, None))
            if key is not None and at is not None and at <= now:
                del self._due[key]
                self._busy.add(key)
                return key
            try:
                async with asyncio.timeout(None if at is None else at - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        """Say that a key that was taken has been looked at."""
        self._busy.discard(key)
        self._changed.set()
