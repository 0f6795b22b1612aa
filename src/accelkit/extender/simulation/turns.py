"""Lets others have the event loop, however long a simulation takes."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# kube-scheduler waits for one turn at most, and a simulation has a third of the time.
_TURN_SECONDS: Final = 0.001
_REST_RATIO: Final = 2


class Turns:
    """The turns of one simulation; the first begins now."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def rest(self) -> None:
        """Give the others their time, where this turn has been long enough."""
        taken = time.perf_counter() - self._began
        if taken >= _TURN_SECONDS:
            await asyncio.sleep(_REST_RATIO * taken)
            self._began = time.perf_counter()
