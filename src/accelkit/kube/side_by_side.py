"""Concurrent requests with a common timeout, and concurrent service loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TypeVar

from accelkit.errors import raise_first

Target = TypeVar("Target")


async def request_all(
    targets: Iterable[Target], request: Callable[[Target], Awaitable[None]], *, at_once: int, seconds: float
) -> None:
    """Send a request to each target, and cancel unfinished requests after the timeout without an error.

    The caller must detect which targets have not responded.

    Args:
        targets: the targets.
        request: a function that sends a request to a target and stores the response.
        at_once: the maximum number of concurrent requests.
        seconds: the timeout for all requests together, in seconds.

    Raises:
        Exception: the first error of a request; other requests are cancelled.
    """
    semaphore = asyncio.Semaphore(at_once)

    async def request_within_limit(each: Target) -> None:
        async with semaphore:
            await request(each)

    with suppress(TimeoutError), raise_first(Exception):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for each in targets:
                group.create_task(request_within_limit(each))


async def run_until(stop: asyncio.Event, loops: Iterable[Coroutine[object, object, None]]) -> None:
    """Run the loops until `stop` is set. The first error stops all loops and is raised without an exception group."""
    # A command reports only one error. Other errors are consequences of it, or are reported after the next start.
    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop) for loop in loops]
            await stop.wait()
            for task in tasks:
                task.cancel()
