"""A thread that works on a stream never outlives it, and never ends well without all of it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.extraction.reader_thread import run_in_thread, run_to_completion

DEADLINE = 60.0


async def stream(*chunks: bytes, error: Exception | None = None) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk
    if error is not None:
        raise error


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    left = [each for each in threading.enumerate() if each not in before and not each.name.startswith("asyncio")]
    assert left == []


async def test_thread_receives_every_chunk_in_order() -> None:
    chunks = [bytes([number]) for number in range(100)]
    assert await run_in_thread(stream(*chunks), b"".join) == b"".join(chunks)


async def test_stream_error_takes_precedence_over_worker_error() -> None:
    with pytest.raises(RegistryError, match="broke off"):
        await run_in_thread(stream(b"x", error=RegistryError("it broke off")), list)


async def test_worker_error_closes_stream() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0)
        finally:
            closed.set()

    def work(chunks: Iterator[bytes]) -> None:
        next(chunks)
        raise CacheError("it is wrong")

    with pytest.raises(CacheError, match="it is wrong"):
        await run_in_thread(endless(), work)
    assert closed.is_set()


async def test_stream_error_is_raised_if_worker_swallows_error() -> None:
    def work(chunks: Iterator[bytes]) -> str:
        try:
            list(chunks)
        except Exception:  # noqa: BLE001 - that is what is tried
            return "fine"
        return "all of it"

    with pytest.raises(RegistryError, match="digest"):
        await run_in_thread(stream(b"x", error=RegistryError("another digest")), work)


async def test_worker_that_returns_before_end_of_stream_raises_error() -> None:
    async def late() -> AsyncGenerator[bytes, None]:
        yield b"x"
        await asyncio.to_thread(done.wait, DEADLINE)
        for _ in range(100):
            yield b"more"
            await asyncio.sleep(0)

    done = threading.Event()

    def work(chunks: Iterator[bytes]) -> bytes:
        try:
            return next(chunks)
        finally:
            done.set()

    with pytest.raises(CacheError, match="contains trailing data"):
        await run_in_thread(late(), work)


async def test_queue_between_stream_and_thread_is_bounded() -> None:
    sent = 0
    looked = threading.Event()

    async def eager() -> AsyncGenerator[bytes, None]:
        nonlocal sent
        while sent < 100:
            sent += 1
            yield b"x"

    def work(chunks: Iterator[bytes]) -> int:
        next(chunks)
        looked.wait(DEADLINE)
        held = sent
        return held + 0 * len(list(chunks))

    async def look() -> None:
        # Turns of the loop in which an unbounded sender would have sent everything.
        for _ in range(1000):
            await asyncio.sleep(0)
        looked.set()

    looking = asyncio.ensure_future(look())
    assert await run_in_thread(eager(), work) < 15
    await looking


async def test_cancellation_ends_worker_thread() -> None:
    ended = threading.Event()
    begun = asyncio.Event()

    async def stalled() -> AsyncGenerator[bytes, None]:
        yield b"x"
        begun.set()
        await asyncio.Event().wait()

    def work(chunks: Iterator[bytes]) -> list[bytes]:
        try:
            return list(chunks)
        finally:
            ended.set()

    task = asyncio.ensure_future(run_in_thread(stalled(), work))
    await asyncio.wait_for(begun.wait(), DEADLINE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, DEADLINE)
    assert ended.is_set()


async def test_repeated_cancellation_waits_for_thread() -> None:
    begun, go_on = threading.Event(), threading.Event()
    ended = False

    def work() -> None:
        nonlocal ended
        begun.set()
        go_on.wait(DEADLINE)
        ended = True

    task = asyncio.ensure_future(run_to_completion(work))
    await asyncio.to_thread(begun.wait, DEADLINE)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended


async def test_exception_of_thread_is_raised_in_caller() -> None:
    def work() -> None:
        raise CacheError("no")

    with pytest.raises(CacheError, match="no"):
        await run_to_completion(work)


async def test_concurrent_streams_do_not_exhaust_thread_pool() -> None:
    async def hashed() -> AsyncGenerator[bytes, None]:
        for _ in range(3):
            # As the registry's client hashes a chunk while the next one comes.
            await asyncio.get_running_loop().run_in_executor(None, hashlib.sha256, b"x")
            yield b"x"

    together = asyncio.gather(*(run_in_thread(hashed(), b"".join) for _ in range(64)))
    assert await asyncio.wait_for(together, DEADLINE) == [b"xxx"] * 64
