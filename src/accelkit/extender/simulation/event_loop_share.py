"""Lets others have the event loop, however long a simulation takes."""

from __future__ import annotations

import asyncio
import time
from typing import Final, TypeVar

from accelkit.placement.changes.probe import Search

_T = TypeVar("_T")

# kube-scheduler waits for one turn at most, and a simulation has a third of the time.
_TURN_SECONDS: Final = 0.001
_REST_RATIO: Final = 2


class EventLoopShare:
    """The turns of one simulation; the first begins now.

    Args:
        rest_ratio: how many times as long as a turn the rest after it is; 0 where somebody waits for the answer.
    """

    def __init__(self, rest_ratio: float = _REST_RATIO) -> None:
        self._rest_ratio = rest_ratio
        self._began = time.perf_counter()

    async def rest(self) -> None:
        """Give the others their time, where this turn has been long enough."""
        taken = time.perf_counter() - self._began
        if taken >= _TURN_SECONDS:
            await asyncio.sleep(self._rest_ratio * taken)
            self._began = time.perf_counter()

    async def finish(self, search: Search[_T]) -> _T:
        """Ask all questions of a search, and let others have their turns in between; return what is found."""
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: _T = end.value
                return found
            await self.rest()
