"""HTTP/1.1 connections, based on aiohttp."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web

from accelkit.serving.messages import ANSWER_SECONDS, HTTP_1, SERVER, Answer, Headers, Reply
from accelkit.serving.tls import list_names

# The library logs each malformed request, so any client could cause an unlimited number of messages.
_silent_log = logging.getLogger(f"{__name__}.protocol")
_silent_log.setLevel(logging.CRITICAL + 1)

_OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "logger": _silent_log,
    "lingering_time": 0,
    "auto_decompress": False,
}
# The number of bytes of a response that are passed to the transport at once.
_WRITE_BYTES: Final = 64 * 1024
# The size of one read. It is limited, because several copies of the received data are in memory during parsing.
_READ_BYTES: Final = 16 * 1024


class Http1Connection(web.RequestHandler):
    """One HTTP/1.1 connection.

    Args:
        manager: the manager of all connections, returned by `make_manager`.
        on_lost: a function that is called when the connection is closed.
        on_unsent: a function that is called with the size of the unsent response.
        most_bytes: the maximum total number of bytes to read from the connection; None for no limit.
        options: options of `aiohttp.web.RequestHandler`.

    Attributes:
        names: the names in the verified client certificate.
        first_request: a future that is done when the first request has arrived or the connection is closed.
        on_unsent: the callback that was passed as an argument.
    """

    __slots__ = ("_left", "_limit", "_on_lost", "first_request", "names", "on_unsent")

    def __init__(
        self,
        manager: web.Server,
        on_lost: Callable[[Http1Connection], None],
        on_unsent: Callable[[Http1Connection, int], None],
        *,
        most_bytes: int | None = None,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(manager, loop=loop, **(_OPTIONS | options))
        self.names: frozenset[str] = frozenset()
        self.first_request: asyncio.Future[None] = loop.create_future()
        self._on_lost, self.on_unsent = on_lost, on_unsent
        self._left = most_bytes
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the names in the certificate of the client."""
        self.names = list_names(transport.get_extra_info("peercert"))
        if self._left is not None and hasattr(transport, "max_size"):
            # By default, asyncio allocates a new buffer of 256 KiB for each read, which fragments the memory.
            transport.max_size = _READ_BYTES
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Process received data up to the limit, and stop reading when the limit is exceeded."""
        # The library passes empty data to continue parsing buffered data.
        if self._left is not None and data:
            data = data[: self._left]
            self._left -= len(data)
            if not self._left and isinstance(self.transport, asyncio.ReadTransport):
                self.transport.pause_reading()
            if not data:
                return
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Record that the connection is closed."""
        self.note_request()
        if self._limit is not None:
            self._limit.cancel()
        self._on_lost(self)
        super().connection_lost(exc)

    def note_request(self) -> None:
        """Record that a request has arrived."""
        if not self.first_request.done():
            self.first_request.set_result(None)

    def handle_error(self, _request: web.BaseRequest, status: int = 500, *_: object) -> web.Response:
        """Return the response to an invalid request. The default response of aiohttp would reveal its version."""
        response = web.Response(
            status=status, body=b'{"error":"this is not a valid request"}', headers={"Server": SERVER}
        )
        response.content_type = "application/json"
        response.force_close()
        return response

    def limit(self, seconds: float) -> None:
        """Limit the remaining lifetime of the connection, in seconds. It is closed even during a request."""
        self._limit = asyncio.get_running_loop().call_later(seconds, self.abort)

    def end(self) -> None:
        """Close the connection after the response to the current request, or immediately if there is no request."""
        if self._request_in_progress:
            self.close()
        else:
            self.force_close()

    def abort(self) -> None:
        """Close the connection immediately, even during a request."""
        if self.transport is not None:
            self.transport.abort()


class _Http1Request:
    """A `Request` that was received over HTTP/1.1."""

    __slots__ = ("_content", "content_length", "headers", "limit", "method", "names", "path", "protocol")

    def __init__(self, request: web.BaseRequest, connection: Http1Connection) -> None:
        self.protocol = HTTP_1
        self.method, self.path = request.method, request.path
        self.content_length = request.content_length
        self.headers: Headers = request.headers
        self.names = connection.names
        self._content = request.content
        self.limit = connection.limit

    async def read(self) -> bytes:
        """Return the next part of the body, which is at most one chunk; empty at the end of the body."""
        while True:
            part, ends_chunk = await self._content.readchunk()
            if part or not ends_chunk or self._content.at_eof():
                return part

    def take(self) -> bytes | None:
        """Return the complete body if it has already arrived; otherwise, return None."""
        return self._content.read_nowait() if self._content.is_eof() else None


def make_manager(answer: Answer) -> web.Server:
    """Return the manager for all connections to a port."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Http1Connection", request.protocol)
        connection.note_request()
        reply = await answer(_Http1Request(request, connection))
        if len(reply.body) > _WRITE_BYTES and request.method != "HEAD":
            return await _send_large(request, connection, reply)
        response = web.Response(status=reply.status, body=reply.body, headers=reply.list_headers())
        if reply.close:
            response.force_close()
        return response

    return web.Server(serve)


async def _send_large(request: web.BaseRequest, connection: Http1Connection, reply: Reply) -> web.StreamResponse:
    """Send a response in chunks, so that the size of the unsent data is known."""
    response = web.StreamResponse(status=reply.status, headers=reply.list_headers())
    response.content_length = len(reply.body)
    if reply.close:
        response.force_close()
    limit = asyncio.get_running_loop().call_later(ANSWER_SECONDS, connection.abort)
    try:
        await response.prepare(request)
        for place in range(0, len(reply.body), _WRITE_BYTES):
            connection.on_unsent(connection, len(reply.body) - place)
            await response.write(reply.body[place : place + _WRITE_BYTES])
        await response.write_eof()
    finally:
        limit.cancel()
        connection.on_unsent(connection, 0)
    return response
