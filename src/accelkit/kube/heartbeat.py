"""Tells whether the API server answers now.

A watch whose connection is dead without being closed stays silent for minutes, so it cannot tell.
"""

from __future__ import annotations

import asyncio
import time

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient

_SECONDS = 2.0


class Heartbeat:
    """Asks the API server whether it is ready, every two seconds.

    Args:
        api: an open client.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._answered_at = time.monotonic()

    def measure_silence_seconds(self) -> float:
        """Return for how long an answer has been overdue, 0 while they come."""
        return max(0.0, time.monotonic() - self._answered_at - _SECONDS)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                await self._api.get("/readyz")
                self._answered_at = time.monotonic()
            except ApiError as exc:
                # Who refuses us is there; the watches log what is wrong.
                if not exc.unanswered:
                    self._answered_at = time.monotonic()
            await asyncio.sleep(_SECONDS)
