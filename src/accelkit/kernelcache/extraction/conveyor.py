"""Hands what an event loop receives to a thread that works on it, with a bound on what lies between them."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

_Result = TypeVar("_Result")

_DEPTH = 8
_END = None
# How long the thread waits for the loop before it looks whether the loop has given up, in seconds.
_PATIENCE_SECONDS = 1.0


class _GivenUpError(Exception):
    """The stream failed or nobody waits any more; the thread has nothing left to do."""


async def in_thread(chunks: AsyncIterator[bytes], work: Callable[[Iterator[bytes]], _Result]) -> _Result:
    """Run `work` in a thread over chunks that come in this event loop, and return what it returns.

    The thread sees the end only when the stream has ended without an error, so `work` cannot end well on a stream that
    did not. Whoever fails first ends both; the stream's error goes before that of `work`.
    """
    loop = asyncio.get_running_loop()
    handed: queue.Queue[bytes | None] = queue.Queue()
    room = asyncio.Semaphore(_DEPTH)
    given_up = False

    def received() -> Iterator[bytes]:
        while True:
            try:
                chunk = handed.get(timeout=_PATIENCE_SECONDS)
            except queue.Empty:
                if given_up:
                    raise _GivenUpError from None
                continue
            if given_up:
                raise _GivenUpError
            if chunk is _END:
                return
            loop.call_soon_threadsafe(room.release)
            yield chunk

    working = loop.run_in_executor(None, work, received())
    try:
        async for chunk in chunks:
            await _either(room, working)
            if working.done():
                break
            handed.put_nowait(chunk)
        else:
            handed.put_nowait(_END)
            return await asyncio.shield(working)
        # The work ended before the stream: it failed, since the end was never handed over.
        return await working
    finally:
        given_up = True
        handed.put_nowait(_END)
        if not working.done():
            await asyncio.wait({working})
        if not working.cancelled():
            working.exception()


async def _either(room: asyncio.Semaphore, working: asyncio.Future[_Result]) -> None:
    """Wait until there is room, or nobody is left to make any."""
    if not room.locked():
        await room.acquire()
        return
    waiting = asyncio.ensure_future(room.acquire())
    try:
        await asyncio.wait({waiting, working}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not waiting.done():
            waiting.cancel()
