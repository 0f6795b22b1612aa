"""Asks many, so many at once, until one deadline for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from accelkit.errors import raise_first

Asked = TypeVar("Asked")


async def ask_all(
    asked: Iterable[Asked], ask: Callable[[Asked], Awaitable[None]], *, at_once: int, seconds: float
) -> None:
    """Ask each; what has not been answered when the time is over is broken off, and is the caller's to tell.

    Args:
        asked: whom.
        ask: asks one, and notes what it said.
        at_once: how many are asked at one time.
        seconds: for all of them together.

    Raises:
        Exception: what asking one of them raised first; the others were broken off.
    """
    turn = asyncio.Semaphore(at_once)

    async def ask_in_turn(each: Asked) -> None:
        async with turn:
            await ask(each)

    with suppress(TimeoutError), raise_first(Exception):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for each in asked:
                group.create_task(ask_in_turn(each))
