"""Graceful shutdown of services on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def on_stop_signal(call: Callable[[], object]) -> None:
    """Call a function when the process receives SIGTERM or SIGINT. This requires the event loop of the main thread."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, call)
