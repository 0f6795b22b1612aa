"""Threads beside an event loop that are never left behind: fed with what the loop receives, waited for to their end."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from accelkit.errors import CacheError

_Result = TypeVar("_Result")

_DEPTH = 8


class _GivenUpError(Exception):
    """The stream failed, or nobody waits any more: the thread has nothing left to do."""


async def to_the_end(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread of its own, and come back when it has ended, even if the waiting is cancelled.

    A thread cannot be cancelled: who clears up, or lets go of a lock, while it still writes, gets in its way.
    """
    with ThreadPoolExecutor(1) as thread:
        working = asyncio.get_running_loop().run_in_executor(thread, work)
        await _until_done(working)
        return working.result()


async def in_thread(chunks: AsyncGenerator[bytes, None], work: Callable[[Iterator[bytes]], _Result]) -> _Result:
    """Run `work` in a thread of its own over chunks that come in this event loop, and return what it returns.

    It ends well only if the stream has ended without an error; an error of the stream goes before the one that it
    causes in `work`. However it ends, the thread has ended too.

    Raises:
        CacheError: `work` was done before the stream, so that the rest of the stream is not proven.
    """
    # Not one of the loop's own threads: those are few, and they hash the chunks that these threads wait for.
    with ThreadPoolExecutor(1) as thread:
        conveyor = _Conveyor()
        working = asyncio.get_running_loop().run_in_executor(thread, work, conveyor.received())
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    await conveyor.room(working)
                    if working.done():
                        break
                    conveyor.hand(chunk)
                else:
                    conveyor.end()
            await asyncio.wait({working})
        finally:
            conveyor.give_up()
            await _until_done(working)
        result = working.result()
        if not conveyor.ended:
            raise CacheError("a layer goes on after its end")
        return result


async def _until_done(working: asyncio.Future[_Result]) -> None:
    """Wait for a thread, however often the waiting is cancelled; then it is."""
    cancelled = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as exc:
            cancelled = exc
    # Looked at, so that asyncio does not tell of an error that nobody saw.
    working.exception()
    if cancelled is not None:
        raise cancelled


class _Conveyor:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handed: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(_DEPTH)
        self._given_up = False
        self.ended = False

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
        self.ended = True
        self._handed.put(None)

    def give_up(self) -> None:
        self._given_up = True
        self._handed.put(None)
