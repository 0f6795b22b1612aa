"""Server for probes and metrics, which runs in a separate thread with its own event loop.

The kubelet waits one second for a response, and restarts the container after several failed probes. If there are
hundreds of caches, the main loop of the agent may be blocked for more than one second.
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
    """Server that responds even while the main loop is busy. Use it as an asynchronous context manager.

    Args:
        open_port: function that creates the server. It is called in the thread of the server. None disables the server.

    Raises:
        ConfigurationError: the port is in use. The error is raised when the context is entered.
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
                # If probes receive no response, the kubelet restarts the agent.
                log.exception("server for metrics and probes failed with an internal error")
            else:
                self._started.set_exception(exc)

    async def _serve(self) -> None:
        assert self._open_port is not None  # noqa: S101 - otherwise there is no thread
        server, stop, loop = self._open_port(), asyncio.Event(), asyncio.get_running_loop()
        self._started.set_result(lambda: _call_soon(loop, stop.set))
        await server.run(stop)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    # The event loop may be closed already.
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
