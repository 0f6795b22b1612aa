"""Handlers of requests for tests of servers."""

from __future__ import annotations

import asyncio

from accelkit.serving.server import Reply


class Gate:
    """A handler that answers once it is open; it counts the requests."""

    def __init__(self) -> None:
        self.asked, self.open = 0, asyncio.Event()

    async def handle(self, *_: object) -> Reply:
        self.asked += 1
        await self.open.wait()
        return Reply(200, b"done")
