"""Threads beside an event loop that read chunks which the loop receives, and are always waited for."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from accelkit.errors import CacheError

_Result = TypeVar("_Result")

_DEPTH = 4


class _GivenUpError(Exception):
    """The stream failed, or nobody waits any more: the thread has nothing left to do."""


async def run_to_completion(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a thread of its own, and come back when it has ended, even if the waiting is cancelled.

    A thread cannot be cancelled: who clears up, or lets go of a lock, while it still writes, gets in its way.
    """
    with ThreadPoolExecutor(1) as thread:
        working = asyncio.get_running_loop().run_in_executor(thread, work)
        await _wait_until_done(working)
        return working.result()


async def run_in_thread(chunks: AsyncGenerator[bytes, None], work: Callable[[Iterator[bytes]], _Result]) -> _Result:
    """Run `work` in a thread of its own over chunks that come in this event loop, and return what it returns.

    It ends well only if the stream has ended without an error; an error of the stream goes before the one that it
    causes in `work`. However it ends, the thread has ended too.

    Raises:
        CacheError: `work` was done before the stream, so that the rest of the stream is not proven.
    """
    # Not one of the loop's own threads: those are few, and they hash the chunks that these threads wait for.
    with ThreadPoolExecutor(1) as thread:
        chunk_queue = _ChunkQueue()
        working = asyncio.get_running_loop().run_in_executor(thread, work, chunk_queue.read_chunks())
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    await chunk_queue.wait_for_space(working)
                    if working.done():
                        break
                    chunk_queue.put(chunk)
                else:
                    chunk_queue.end()
            await asyncio.wait({working})
        finally:
            chunk_queue.give_up()
            await _wait_until_done(working)
        result = working.result()
        if not chunk_queue.ended:
            raise CacheError("a layer goes on after its end")
        return result


async def _wait_until_done(working: asyncio.Future[_Result]) -> None:
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


class _ChunkQueue:
    """Chunks on their way from the event loop to the thread that reads them, a few at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._space = asyncio.Semaphore(_DEPTH)
        self._given_up = False
        self.ended = False

    def read_chunks(self) -> Iterator[bytes]:
        """Yield chunks to the thread. It never waits for ever: whoever puts chunks ends with `end` or `give_up`."""
        while (chunk := self._chunks.get()) is not None and not self._given_up:
            self._loop.call_soon_threadsafe(self._space.release)
            yield chunk
        if self._given_up:
            raise _GivenUpError

    async def wait_for_space(self, working: asyncio.Future[_Result]) -> None:
        """Wait until another chunk fits, or the reader has ended."""
        if not self._space.locked():
            await self._space.acquire()
            return
        waiting = asyncio.ensure_future(self._space.acquire())
        either: set[asyncio.Future[Any]] = {waiting, working}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def put(self, chunk: bytes) -> None:
        self._chunks.put(chunk)

    def end(self) -> None:
        self.ended = True
        self._chunks.put(None)

    def give_up(self) -> None:
        self._given_up = True
        self._chunks.put(None)
