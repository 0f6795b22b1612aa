"""Limit on the event loop time that a long simulation or search uses."""

from __future__ import annotations

import asyncio
import time
from typing import Final, TypeVar

from accelkit.placement.changes.probe import Search

_T = TypeVar("_T")

# Duration of a turn, which is the maximum delay for kube-scheduler. A simulation uses a third of the time.
_TURN_SECONDS: Final = 0.001
_REST_RATIO: Final = 2


class EventLoopShare:
    """Turns of one simulation. The first turn starts when the object is created.

    Args:
        rest_ratio: the duration of the pause after a turn, as a multiple of the turn; 0 if kube-scheduler is waiting
            for the result.
    """

    def __init__(self, rest_ratio: float = _REST_RATIO) -> None:
        self._rest_ratio = rest_ratio
        self._began = time.perf_counter()

    async def rest(self) -> None:
        """Pause so that other tasks can run if this turn has reached its duration."""
        taken = time.perf_counter() - self._began
        if taken >= _TURN_SECONDS:
            await asyncio.sleep(self._rest_ratio * taken)
            self._began = time.perf_counter()

    async def finish(self, search: Search[_T]) -> _T:
        """Run all trials of a search, with pauses for other tasks; return the result of the search."""
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: _T = end.value
                return found
            await self.rest()
