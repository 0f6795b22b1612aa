"""Threads that read chunks from an event loop. Callers always wait until the threads have finished."""

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


class _AbandonedError(Exception):
    """The stream failed or the caller was cancelled, so the thread must stop."""


async def run_to_completion(work: Callable[[], _Result]) -> _Result:
    """Run `work` in a separate thread, and return only after it has finished, even if the caller is cancelled.

    A thread cannot be cancelled. If the caller cleaned up or released a lock too early, the thread could still be
    writing.
    """
    with ThreadPoolExecutor(1) as thread:
        working = asyncio.get_running_loop().run_in_executor(thread, work)
        await _wait_until_done(working)
        return working.result()


async def run_in_thread(chunks: AsyncGenerator[bytes, None], work: Callable[[Iterator[bytes]], _Result]) -> _Result:
    """Run `work` in a separate thread on chunks that this event loop receives, and return the result.

    The call succeeds only if the stream ended without an error. If the stream fails, its error takes precedence over
    the error that it causes in `work`. The thread has always finished when the call returns.

    Raises:
        CacheError: `work` finished before the end of the stream, so the rest of the stream is not verified.
    """
    # The default executor of the event loop is not used, because its few threads hash the chunks that this thread waits
    # for.
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
            chunk_queue.abandon()
            await _wait_until_done(working)
        result = working.result()
        if not chunk_queue.ended:
            raise CacheError("a layer contains trailing data")
        return result


async def _wait_until_done(working: asyncio.Future[_Result]) -> None:
    """Wait for a thread even if the caller is cancelled; raise the last cancellation after the thread has finished."""
    cancelled = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as exc:
            cancelled = exc
    # Retrieve the exception. Otherwise, asyncio logs that it was never retrieved.
    working.exception()
    if cancelled is not None:
        raise cancelled


class _ChunkQueue:
    """A bounded queue for chunks that the event loop passes to a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._space = asyncio.Semaphore(_DEPTH)
        self._abandoned = False
        self.ended = False

    def read_chunks(self) -> Iterator[bytes]:
        """Yield chunks to the thread until the writer calls `end` or `abandon`. The writer always calls one of them."""
        while (chunk := self._chunks.get()) is not None and not self._abandoned:
            self._loop.call_soon_threadsafe(self._space.release)
            yield chunk
        if self._abandoned:
            raise _AbandonedError

    async def wait_for_space(self, working: asyncio.Future[_Result]) -> None:
        """Wait until there is space for another chunk, or the reader has finished."""
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

    def abandon(self) -> None:
        self._abandoned = True
        self._chunks.put(None)
