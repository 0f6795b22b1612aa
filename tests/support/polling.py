"""Waits without an event loop, for conditions of files, threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from support.waiting import DEADLINE

T = TypeVar("T")


def poll_until(look: Callable[[], T], *, seconds: float = DEADLINE) -> T:
    """Return the first true answer; files and processes tell nobody that they change."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {getattr(look, '__name__', look)}"
        time.sleep(0.01)
    return seen
