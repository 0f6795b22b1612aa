"""Graceful shutdown of services on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(call: Callable[[], object]) -> None:
    """Call a function when the process receives SIGTERM or SIGINT. This requires the event loop of the main thread."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, call)


@contextmanager
def awaiting_stop_signals() -> Iterator[Callable[[float], bool]]:
    """Handle SIGTERM and SIGINT in a service without an event loop.

    Yield a function that waits for a signal for at most the given number of seconds, and returns whether one has
    arrived. The handlers write to a pipe. A handler that sets a `threading.Event` could run while the main thread holds
    the event's lock, and then block forever.
    """
    read_end, write_end = os.pipe()

    def wait(seconds: float) -> bool:
        return bool(select.select([read_end], [], [], seconds)[0])

    before = {number: signal.signal(number, lambda *_: os.write(write_end, b"x")) for number in STOP_SIGNALS}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)
