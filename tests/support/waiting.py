"""Waits for conditions of real programs, which are met within a deadline that a busy machine meets as well."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

DEADLINE = 60.0


async def until(
    question: Callable[[], Any],
    *,
    accept: Callable[[Any], object] = bool,
    seconds: float = DEADLINE,
    every: float = 0.05,
) -> Any:
    """Call the function, which may be asynchronous, until its answer is accepted; return the answer.

    The pauses between the calls grow up to `every` seconds. The failure shows the last answer.
    """
    deadline, pause = time.monotonic() + seconds, 0.0
    while not accept(answer := await _ask(question)):
        assert time.monotonic() < deadline, _describe(question, answer, seconds)
        await asyncio.sleep(pause)
        pause = min(2 * pause + 0.001, every)
    return answer


async def _ask(question: Callable[[], Any]) -> Any:
    answer = question()
    return await answer if inspect.isawaitable(answer) else answer


def poll_until(look: Callable[[], T], *, accept: Callable[[T], object] = bool, seconds: float = DEADLINE) -> T:
    """Do the same without an event loop: call the function until its answer is accepted; return the answer."""
    deadline = time.monotonic() + seconds
    while not accept(answer := look()):
        assert time.monotonic() < deadline, _describe(look, answer, seconds)
        time.sleep(0.01)
    return answer


def _describe(question: object, answer: object, seconds: float) -> str:
    return f"not within {seconds} s: {getattr(question, '__name__', question)}: {str(answer)[:8000]}"
