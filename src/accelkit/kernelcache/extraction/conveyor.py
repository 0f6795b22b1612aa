"""Hands what an event loop receives to a thread that works on it, with a bound on what lies between them."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_DEPTH = 8


class _GivenUpError(Exception):
    """The stream failed, or nobody waits any more: the thread has nothing left to do."""


async def in_thread(chunks: AsyncGenerator[bytes, None], work: Callable[[Iterator[bytes]], _Result]) -> _Result:
    """Run `work` in a thread over chunks that come in this event loop, and return what it returns.

    The thread sees the end only when the stream has ended without an error, so `work` cannot end well on a stream that
    did not. An error of the stream goes before the one that it causes in `work`.
    """
    conveyor = _Conveyor()
    working = asyncio.get_running_loop().run_in_executor(None, work, conveyor.received())
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                await conveyor.room(working)
                if working.done():
                    break
                conveyor.hand(chunk)
            else:
                conveyor.end()
        return await asyncio.shield(working)
    finally:
        conveyor.give_up()
        await asyncio.wait({working})
        working.exception()


class _Conveyor:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handed: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(_DEPTH)
        self._given_up = False

    def received(self) -> Iterator[bytes]:
        """What the thread reads. It never waits for ever: whoever hands over always ends with `end` or `give_up`."""
        while (chunk := self._handed.get()) is not None and not self._given_up:
            self._loop.call_soon_threadsafe(self._room.release)
            yield chunk
        if self._given_up:
            raise _GivenUpError

    async def room(self, working: asyncio.Future[_Result]) -> None:
        """Wait until there is room, or nobody is left to make any."""
        if not self._room.locked():
            await self._room.acquire()
            return
        waiting = asyncio.ensure_future(self._room.acquire())
        either: set[asyncio.Future[Any]] = {waiting, working}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def hand(self, chunk: bytes) -> None:
        self._handed.put(chunk)

    def end(self) -> None:
        self._handed.put(None)

    def give_up(self) -> None:
        self._given_up = True
        self._handed.put(None)
