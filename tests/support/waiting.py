"""Waits for conditions of real programs, which are met within a deadline that a busy machine meets as well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

DEADLINE = 45.0


async def until(question: Callable[[], Awaitable[Any]], *, seconds: float = DEADLINE, every: float = 0.05) -> Any:
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (answer := await question()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {getattr(question, '__name__', question)}"
        await asyncio.sleep(every)
    return answer
