"""Open connections to a port, with limits on their number and on the time until the first request arrives.

Trusted clients are never delayed by unknown clients. If there are too many connections, the server closes the
connection that has waited the longest for its first request. A probe from the kubelet or a request from kube-scheduler
arrives within milliseconds. Therefore, it is served even if another client continuously opens connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from accelkit.errors import ConfigurationError
from accelkit.logs import ErrorReporter
from accelkit.serving.http1 import Http1Connection, make_manager
from accelkit.serving.http2.connection import Http2Connection
from accelkit.serving.messages import Answer
from accelkit.serving.tls import H2, Listen

log = logging.getLogger(__name__)

# The time limit from the first packet to the end of the headers of the first request, including the TLS handshake.
HEAD_SECONDS: Final = 5.0
# The pause before the next attempt if the process has no free file descriptors.
_PAUSE_SECONDS: Final = 0.1
_BACKLOG: Final = 1024

Connection: TypeAlias = Http1Connection | Http2Connection


class _Opening(asyncio.Protocol):
    """A connection for which the HTTP version has not been negotiated yet."""

    def __init__(self, make: Callable[[str | None], Connection]) -> None:
        self._make = make
        self.connection: Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        self.connection = self._make(tls.selected_alpn_protocol() if tls else None)
        transport.set_protocol(self.connection)
        self.connection.connection_made(transport)


class Connections:
    """Server that accepts and manages the connections to one port.

    Args:
        answer: a function that returns the response to a request.
        limit: the maximum number of open connections.
        idle_seconds: the time after which a connection without a request is closed.
        unsent_bytes: the maximum total size of unsent responses. If it is exceeded, the connection that has had unsent
            responses for the longest time is closed.
        options: options of `Http1Connection`.
    """

    def __init__(
        self, answer: Answer, *, limit: int, unsent_bytes: int, idle_seconds: float = 120.0, **options: Any
    ) -> None:
        self._answer, self._limit = answer, limit
        self._manager = make_manager(answer)
        self._idle_seconds = idle_seconds
        self._options: dict[str, Any] = {"keepalive_timeout": idle_seconds, **options}
        # Connections that wait for their first request, and connections that are served, both in order of arrival.
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._served: dict[Connection, None] = {}
        # Size of the unsent responses of each connection, beginning with the connection that has waited the longest.
        self._unsent: dict[Connection, int] = {}
        self._unsent_bytes = unsent_bytes
        self._changed = asyncio.Event()
        self._errors = ErrorReporter(log)
        self._context: ssl.SSLContext | None = None
        self._pause: asyncio.TimerHandle | None = None

    def accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept connections with these certificates. A later call replaces the certificates.

        Args:
            listening: a non-blocking socket.
            context: the TLS context with the certificates; None for plain HTTP.
        """
        self._context = context
        asyncio.get_running_loop().add_reader(listening, self._accept_one, listening)

    def refuse(self, listening: socket.socket) -> None:
        """Stop accepting connections."""
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(listening)

    def end(self) -> None:
        """Close connections without a request immediately, and other connections after their current responses."""
        self._drop_waiting()
        for connection in list(self._served):
            connection.end()

    async def shut_down(self, seconds: float) -> None:
        """Close all connections gracefully, and wait until they are closed. Abort the rest after `seconds`."""
        self.end()
        try:
            async with asyncio.timeout(seconds):
                while self._served or self._waiting:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            for connection in list(self._served):
                connection.abort()

    def _accept_one(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as exc:
            self._errors.report(str(exc), f"cannot accept a connection: {exc}")
            loop.remove_reader(listening)
            self._pause = loop.call_later(_PAUSE_SECONDS, self.accept, listening, self._context)
            return
        self._errors.clear()
        accepted.setblocking(False)  # noqa: FBT003 - its signature
        if len(self._waiting) + len(self._served) >= self._limit:
            self._make_room()
        task = loop.create_task(self._wait(accepted))
        self._waiting[task] = None
        task.add_done_callback(partial(self._note_end, accepted))

    async def _wait(self, accepted: socket.socket) -> None:
        """Wait for the first request. After the request has arrived, the connection does not need this task."""
        opening = _Opening(self._make)
        loop, context = asyncio.get_running_loop(), self._context
        seconds = HEAD_SECONDS if context else None
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                await loop.connect_accepted_socket(
                    lambda: opening, accepted, ssl=context, ssl_handshake_timeout=seconds
                )
                connection = opening.connection
                if connection is not None:
                    await asyncio.shield(connection.first_request)
        except BaseException:
            connection = opening.connection
            if connection is None or not connection.first_request.done():
                if connection is not None:
                    connection.abort()
                raise
            # The request arrived at the time of the cancellation, so it still receives a response.
            connection.end()
        if connection is not None and connection.transport is not None:
            self._served[connection] = None

    def _make(self, chosen: str | None) -> Connection:
        if chosen == H2:
            return Http2Connection(self._answer, self._lose, self._count_unsent, self._idle_seconds)
        return Http1Connection(self._manager, self._lose, self._count_unsent, **self._options)

    def _note_end(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        # The task may have been cancelled before it started. Errors that clients cause are not logged.
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None:
            accepted.close()
        if not isinstance(failure, OSError | asyncio.CancelledError | None):
            log.error("cannot serve a connection", exc_info=failure)
        self._changed.set()

    def _make_room(self) -> None:
        for task in self._waiting:
            task.cancel()
            del self._waiting[task]
            return
        for connection in self._served:
            connection.abort()
            return

    def _drop_waiting(self) -> None:
        for task in list(self._waiting):
            task.cancel()

    def _count_unsent(self, connection: Connection, size: int) -> None:
        # The task of an aborted connection may still report an unsent response.
        if not size or connection.transport is None or connection.transport.is_closing():
            self._unsent.pop(connection, None)
            return
        self._unsent[connection] = size
        while sum(self._unsent.values()) > self._unsent_bytes:
            oldest = next(iter(self._unsent))
            del self._unsent[oldest]
            oldest.abort()

    def _lose(self, connection: Connection) -> None:
        self._served.pop(connection, None)
        self._unsent.pop(connection, None)
        self._changed.set()


def open_socket(listen: Listen) -> socket.socket:
    """Return a non-blocking socket that listens on the address.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((listen.host, listen.port))
        listening.listen(_BACKLOG)
    except OSError as exc:
        listening.close()
        raise ConfigurationError(
            f"cannot listen on {listen.host}:{listen.port}: {exc.strerror}",
            next_step="stop the process that uses this port, or choose another port (see --help)",
        ) from exc
    listening.settimeout(0)
    return listening
