"""Share of the event loop for a long simulation or search."""

from __future__ import annotations

import asyncio
import time
from typing import Final, TypeVar

from accelkit.placement.changes.probe import Search

_T = TypeVar("_T")

# Length of a turn, which is the maximum delay of kube-scheduler. A simulation gets a third of the time.
_TURN_SECONDS: Final = 0.001
_REST_RATIO: Final = 2


class EventLoopShare:
    """Turns of one simulation; the first turn starts when the object is created.

    Args:
        rest_ratio: the length of the pause after a turn, as a multiple of the turn; 0 if a client is waiting.
    """

    def __init__(self, rest_ratio: float = _REST_RATIO) -> None:
        self._rest_ratio = rest_ratio
        self._began = time.perf_counter()

    async def rest(self) -> None:
        """Let other tasks run if this turn has reached its length."""
        taken = time.perf_counter() - self._began
        if taken >= _TURN_SECONDS:
            await asyncio.sleep(self._rest_ratio * taken)
            self._began = time.perf_counter()

    async def finish(self, search: Search[_T]) -> _T:
        """Run all trials of a search, with other tasks in between; return its result."""
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: _T = end.value
                return found
            await self.rest()
