"""Probe that measures how long the API server has been unresponsive.

A watch cannot measure this time, because it may take minutes to detect a dead connection that was not closed.
"""

from __future__ import annotations

import asyncio
import time

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient

_SECONDS = 2.0


class Heartbeat:
    """Probe that requests `/readyz` from the API server every two seconds.

    Args:
        api: an open client.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._answered_at = time.monotonic()

    def measure_silence_seconds(self) -> float:
        """Return how long a response has been overdue, in seconds; 0 while the server responds."""
        return max(0.0, time.monotonic() - self._answered_at - _SECONDS)

    async def run(self) -> None:
        """Request `/readyz` until cancelled."""
        while True:
            try:
                await self._api.get("/readyz")
                self._answered_at = time.monotonic()
            except ApiError as exc:
                # An error response is also a response. The watches log the cause.
                if not exc.unanswered:
                    self._answered_at = time.monotonic()
            await asyncio.sleep(_SECONDS)
