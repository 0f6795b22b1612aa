"""Server for probes and metrics in a separate thread with its own event loop.

The kubelet waits one second for a response, and restarts the container after a few failed probes. While the agent
plans, extracts and reports hundreds of caches, its main loop may block for longer than one second.
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
    """Server that responds while the main loop is busy; use it as an asynchronous context manager.

    Args:
        open_port: function that creates the server, called in the thread of the server; None to disable the server.

    Raises:
        ConfigurationError: the port is in use, raised on entering the context.
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
                # Without a response to its probes, the kubelet restarts the agent.
                log.exception("server for metrics and probes failed with an internal error")
            else:
                self._started.set_exception(exc)

    async def _serve(self) -> None:
        assert self._open_port is not None  # noqa: S101 - otherwise there is no thread
        server, stop, loop = self._open_port(), asyncio.Event(), asyncio.get_running_loop()
        self._started.set_result(lambda: _call_soon(loop, stop.set))
        await server.run(stop)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    # The loop may have been closed.
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
