"""The open connections of a port: how many there are, and how long one may take until its first request is there.

Nobody waits behind a stranger: where there are too many connections, the one that has waited longest gives way to the
new one. A kubelet's probe or a scheduler's request comes whole within milliseconds, so it is served even while others
open connections as fast as they can.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from aiohttp import web

from accelkit.errors import ConfigurationError
from accelkit.logs import ErrorReporter
from accelkit.serving.tls import Listen, list_names

log = logging.getLogger(__name__)

# What the library says of broken requests: anybody can make it say so, as often as he likes.
_unheard = logging.getLogger(f"{__name__}.protocol")
_unheard.setLevel(logging.CRITICAL + 1)

# From the first packet to the whole head of the first request, a handshake included.
HEAD_SECONDS: Final = 5.0
# Read at once: what a stranger sends is in memory several times while it is taken apart.
_READ_BYTES: Final = 16 * 1024
# Where the process has no more descriptors.
_PAUSE_SECONDS: Final = 0.1
_BACKLOG: Final = 1024

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(web.RequestHandler):
    """One connection of HTTP/1.1.

    Args:
        manager: of all connections.
        on_lost: called when the connection has ended.
        most_bytes: how much is read of it in all; None for no bound.
        options: of `aiohttp.web.RequestHandler`.

    Attributes:
        names: of the certificate that the client has proven to hold.
        asked: done when the first request is there, or the connection has ended.
    """

    __slots__ = ("_left", "_limit", "_on_lost", "asked", "names")

    def __init__(
        self,
        manager: web.Server,
        on_lost: Callable[[Connection], None],
        *,
        most_bytes: int | None = None,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(manager, loop=loop, **options)
        self.names: frozenset[str] = frozenset()
        self.asked: asyncio.Future[None] = loop.create_future()
        self._on_lost = on_lost
        self._left = most_bytes
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who has connected."""
        self.names = list_names(transport.get_extra_info("peercert"))
        if self._left is not None and hasattr(transport, "max_size"):
            # asyncio's own 256 KiB, taken anew for each read, leave holes in memory that nothing fills.
            transport.max_size = _READ_BYTES
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take what has come, up to the bound; beyond it the connection is not read any more."""
        # Nothing is what the library itself gives, to go on with what it has not taken apart yet.
        if self._left is not None and data:
            data = data[: self._left]
            self._left -= len(data)
            if not self._left and isinstance(self.transport, asyncio.ReadTransport):
                self.transport.pause_reading()
            if not data:
                return
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that the connection has ended."""
        self.note_asked()
        if self._limit is not None:
            self._limit.cancel()
        self._on_lost(self)
        super().connection_lost(exc)

    def note_asked(self) -> None:
        """Note that a request is there."""
        if not self.asked.done():
            self.asked.set_result(None)

    def handle_error(self, _request: web.BaseRequest, status: int = 500, *_: object) -> web.Response:
        """Answer what is no request; the library's own answer says what it is written in."""
        response = web.Response(status=status, body=b'{"error":"this is no request"}', headers={"Server": "accelkit"})
        response.content_type = "application/json"
        response.force_close()
        return response

    def limit(self, seconds: float) -> None:
        """Close at the latest after this time, whatever is under way then."""
        self._limit = asyncio.get_running_loop().call_later(seconds, self.abort)

    def end(self) -> None:
        """Close when the request under way is answered, at once where there is none."""
        if self._request_in_progress:
            self.close()
        else:
            self.force_close()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self.transport is not None:
            self.transport.abort()


class Connections:
    """Accepts the connections of a port and serves them.

    Args:
        answer: answers a request.
        limit: how many are open at once.
        options: of `Connection`.
    """

    def __init__(self, answer: Answer, *, limit: int, **options: Any) -> None:
        self._limit = limit
        self._manager = web.Server(answer)
        self._options: dict[str, Any] = {
            "access_log": None,
            "logger": _unheard,
            "lingering_time": 0,
            "auto_decompress": False,
        }
        self._options |= options
        # In the order in which they came: those whose first request is not there yet, and those that are served.
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._served: dict[Connection, None] = {}
        self._changed = asyncio.Event()
        self._trouble = ErrorReporter(log)
        self._context: ssl.SSLContext | None = None
        self._pause: asyncio.TimerHandle | None = None

    def accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept from now on, with these certificates; called again, with other ones.

        Args:
            listening: a socket that does not block.
            context: None for plain HTTP.
        """
        self._context = context
        asyncio.get_running_loop().add_reader(listening, self._accept_one, listening)

    def refuse(self, listening: socket.socket) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(listening)

    def end(self) -> None:
        """Close every connection when its request is answered, and those that have not asked at once."""
        self._drop_waiting()
        for connection in list(self._served):
            connection.end()

    async def shut_down(self, seconds: float) -> None:
        """End, and wait for that; what is under way for longer is cut off."""
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
            self._trouble.report(str(exc), f"a connection cannot be accepted: {exc}")
            loop.remove_reader(listening)
            self._pause = loop.call_later(_PAUSE_SECONDS, self.accept, listening, self._context)
            return
        self._trouble.clear()
        accepted.setblocking(False)  # noqa: FBT003 - its signature
        if len(self._waiting) + len(self._served) >= self._limit:
            self._make_room()
        task = loop.create_task(self._wait(accepted))
        self._waiting[task] = None
        task.add_done_callback(partial(self._note_end, accepted))

    async def _wait(self, accepted: socket.socket) -> None:
        """Wait for the first request; from then on the connection lives by itself."""
        connection = Connection(self._manager, self._lose, **self._options)
        loop, context = asyncio.get_running_loop(), self._context
        seconds = HEAD_SECONDS if context else None
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                await loop.connect_accepted_socket(
                    lambda: connection, accepted, ssl=context, ssl_handshake_timeout=seconds
                )
                await asyncio.shield(connection.asked)
        except BaseException:
            if not connection.asked.done():
                connection.abort()
                raise
            # Its request came in the very moment in which it was dropped, and is answered.
            connection.end()
        if connection.transport is not None:
            self._served[connection] = None

    def _note_end(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        # It may have been cancelled before it began. What strangers do wrong is nobody's concern.
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None:
            accepted.close()
        if not isinstance(failure, OSError | asyncio.CancelledError | None):
            log.error("a connection could not be served", exc_info=failure)
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

    def _lose(self, connection: Connection) -> None:
        self._served.pop(connection, None)
        self._changed.set()


def open_socket(listen: Listen) -> socket.socket:
    """Return a socket that listens there, and does not block.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
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
            next_step="stop what listens there, or choose another port with --listen",
        ) from exc
    listening.settimeout(0)
    return listening
