"""Serves the agent's port from a thread and an event loop of its own.

A kubelet waits a second for an answer, and ends the container when it has got none a few times. While hundreds of
caches are planned, unpacked and reported, the agent's own loop may not come to it: slow is not ill.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Final, Self

from accelkit.serving.server import HeadServer

log = logging.getLogger(__name__)

_END_SECONDS: Final = 10.0


class ProbePort:
    """A port that answers however busy the rest of the process is; use as an asynchronous context manager.

    Args:
        open_port: makes the server, in the thread that serves it; None where there is no port.

    Raises:
        ConfigurationError: on entering, the port is taken.
    """

    def __init__(self, open_port: Callable[[], HeadServer] | None) -> None:
        self._open_port = open_port
        self._started: Future[Callable[[], None]] = Future()
        self._thread = threading.Thread(target=self._run, name="probe-port", daemon=True)

    async def __aenter__(self) -> Self:
        if self._open_port is not None:
            self._thread.start()
            await asyncio.wrap_future(self._started)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._started.result()()
            await asyncio.to_thread(self._thread.join, _END_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as exc:
            if self._started.done():
                # Nobody answers probes now, so that the kubelet starts the agent anew.
                log.exception("the port of metrics and probes met a defect")
            else:
                self._started.set_exception(exc)

    async def _serve(self) -> None:
        assert self._open_port is not None  # noqa: S101 - else there is no thread
        server, stop, loop = self._open_port(), asyncio.Event(), asyncio.get_running_loop()
        self._started.set_result(lambda: _call_soon(loop, stop.set))
        await server.run(stop)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    # It may have ended by itself meanwhile.
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
