"""HTTP server that runs in the event loop of this process, so that the ledger has a single writer.

TLS with client certificates is the default. Plain HTTP is used for probes and metrics, and on the loopback address in
the sandbox.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.logs import RepeatLog
from accelkit.serving.connections import Connections, open_socket
from accelkit.serving.messages import ANSWER_SECONDS, HTTP_1, HTTP_2, Headers, Reply, Request
from accelkit.serving.tls import Listen, TlsFiles, make_context

__all__ = ["MAX_BODIES_BYTES", "MAX_BODY_BYTES", "BodyLimits", "Head", "HeadServer", "Headers", "HttpServer", "Reply"]

log = logging.getLogger(__name__)

# This is sufficient for 5,000 complete Node objects of 20 KB, which kube-scheduler sends if nodeCacheCapable is false.
MAX_BODY_BYTES = 128 * 1024 * 1024
# The limit on the total size of all bodies. Each body is in memory twice for a short time, and the extender's memory is
# limited to 1 GiB.
MAX_BODIES_BYTES = 256 * 1024 * 1024
_CERTIFICATE_SECONDS = 2.0
# kube-scheduler sends a body promptly. A slower client must not delay the shutdown or occupy a connection indefinitely.
_BODY_SECONDS = 30.0
# Requests to a HeadServer have small bodies.
_SMALL_BODY_SECONDS: Final = 5.0
# Go clients close idle connections after 90 s, so they never send a request over a connection that this server is
# closing.
_IDLE_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
_CONNECTIONS: Final = 256
# Maximum size of the headers of a request to a HeadServer in addition to the longest header.
_OTHER_HEADERS_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits on request bodies.

    Attributes:
        each_bytes: the maximum size of one body.
        together_bytes: the maximum total size of all bodies that are being received or processed.
        seconds: the time limit for receiving one body, in seconds.
        small_bytes: the maximum size of a body that is treated as small.
        kept_bytes: the part of `together_bytes` that is reserved for small bodies.
    """

    each_bytes: int
    together_bytes: int
    seconds: float
    small_bytes: int = 0
    kept_bytes: int = 0


class Head:
    """The headers of a request, with case-insensitive names, and access to the body.

    Args:
        request: the received request.
        body_bytes: the maximum size of the body.
    """

    def __init__(self, request: Request, body_bytes: int) -> None:
        self._request, self._body_bytes = request, body_bytes

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None if it is missing."""
        return self._request.headers.get(key)

    async def read_body(self) -> bytes | Reply:
        """Return the body, or a response that rejects it.

        Only a small part of the body is received before this call.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(_SMALL_BODY_SECONDS):
                while len(body) <= self._body_bytes and (chunk := await self._request.read()):
                    body += chunk
        except TimeoutError:
            return _too_late()
        return bytes(body) if len(body) <= self._body_bytes else _too_large(self._body_bytes)


class _Server(ABC):
    """A server for one application on one socket.

    The socket remains open when the certificates change. New connections use the new certificates, and existing
    connections are closed after the responses to their current requests.

    Args:
        listen: the address and the certificates.
        connections: the maximum number of open connections.
        http2: whether clients may use HTTP/2.
        unsent_bytes: the maximum total size of unsent responses.
        options: options of `Connections`.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """

    def __init__(
        self, listen: Listen, connections: int, *, http2: bool = False, unsent_bytes: int, **options: Any
    ) -> None:
        self._listen, self._http2 = listen, http2
        self._connections = Connections(self._serve, limit=connections, unsent_bytes=unsent_bytes, **options)
        self._socket = open_socket(listen)
        # Bodies that are being read, in order of arrival, with the number of received bytes of each body.
        self._reading: dict[asyncio.Timeout, list[int]] = {}
        # Number of requests for each HTTP version.
        self.requests = Counter({HTTP_1: 0, HTTP_2: 0})
        self._refused = RepeatLog(log, seconds=float("inf"), keys=256)

    def renew(self) -> None:
        """Close each connection after the response to its current request, so that clients reconnect."""
        self._connections.end()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve requests until `stop` is set, and then complete the requests in progress.

        Raises:
            ConfigurationError: the certificates cannot be used.
        """
        with self._socket:
            tls = self._listen.tls
            self._connections.accept(self._socket, make_context(tls, http2=self._http2) if tls else None)
            watching = asyncio.create_task(self._watch_certificates(tls)) if tls else None
            try:
                await stop.wait()
            finally:
                self._connections.refuse(self._socket)
                if watching is not None:
                    watching.cancel()
        for limit in self._reading:
            limit.reschedule(asyncio.get_running_loop().time())
        await self._connections.shut_down(_END_SECONDS)

    async def _serve(self, request: Request) -> Reply:
        self.requests[request.protocol] += 1
        try:
            return self._refuse(request.names) or await self._answer(request)
        except ConnectionError:
            # The client disconnected before the body was complete, so it does not wait for a response.
            return Reply(400, b"", close=True)
        except Exception:
            log.exception("cannot answer a request to %s because of a bug", request.path[:100])
            return Reply(500, b'{"error":"internal error; see the log of this service"}', close=True)

    @abstractmethod
    async def _answer(self, request: Request) -> Reply:
        """Return the response to one request."""

    def _refuse(self, proven: frozenset[str]) -> Reply | None:
        tls = self._listen.tls
        if tls is None or tls.client_ca is None or tls.client_names & proven:
            return None
        names = ", ".join(sorted(proven))[:300] or "no name"
        self._refused.warn(
            names, f"refused a client certificate with the names {names!r}; --client-name lists the accepted names"
        )
        return Reply(403, b'{"error":"no name of the client certificate is accepted here"}', close=True)

    async def _watch_certificates(self, files: TlsFiles) -> None:
        used = current = files.digest()
        while True:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            before, current = current, files.digest()
            # If two consecutive digests are equal, no program is currently writing the files.
            if current in {used, None} or current != before:
                continue
            try:
                self._connections.accept(self._socket, make_context(files, http2=self._http2))
            except ConfigurationError as exc:
                log.error("cannot reload the certificates, so the previous certificates stay in use: %s", exc)  # noqa: TRY400 - no traceback is needed
            else:
                log.info("certificates reloaded")
                self.renew()
            used = current


class HttpServer(_Server):
    """A server for requests with bodies.

    The limits apply to the received bytes of bodies, not to the announced sizes. If the total limit is exceeded, the
    server rejects the body that has been arriving for the longest time, because valid clients send their bodies
    promptly.

    Args:
        listen: the address and the certificates.
        handle: a function that returns the response for a method, a path and a body.
        http2: whether clients may use HTTP/2.
        limits: the limits on bodies; None for the limits for requests from kube-scheduler.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """

    def __init__(
        self,
        listen: Listen,
        handle: Callable[[str, str, bytes], Awaitable[Reply]],
        *,
        http2: bool = True,
        limits: BodyLimits | None = None,
        connections: int | None = None,
    ) -> None:
        self._handle = handle
        self._limits = limits or BodyLimits(MAX_BODY_BYTES, MAX_BODIES_BYTES, _BODY_SECONDS)
        super().__init__(
            listen,
            connections or _CONNECTIONS,
            http2=http2,
            idle_seconds=_IDLE_SECONDS,
            unsent_bytes=self._limits.together_bytes,
        )
        self._held_bytes = 0

    async def _answer(self, request: Request) -> Reply:
        if (request.content_length or 0) > self._limits.each_bytes:
            return _too_large(self._limits.each_bytes)
        # The body is included in the total until the response is sent, because values that were decoded from it also
        # use memory.
        held = [0]
        try:
            whole = request.take() if request.content_length else None
            if whole is None:
                body = await self._wait(request, held)
            else:
                body = whole if self._hold(held, len(whole)) else _busy()
            return body if isinstance(body, Reply) else await self._handle(request.method, request.path, body)
        finally:
            self._held_bytes -= held[0]

    async def _wait(self, request: Request, held: list[int]) -> bytes | Reply:
        """Return the result of `_read`; after the time limit, return a response that rejects the body."""
        limit = asyncio.timeout(self._limits.seconds)
        self._reading[limit] = held
        try:
            async with limit:
                return await self._read(request, held)
        except TimeoutError:
            if not limit.expired():
                raise
            return _too_late()
        finally:
            self._reading.pop(limit, None)

    async def _read(self, request: Request, held: list[int]) -> bytes | Reply:
        """Return the body, or a response that rejects it. `held` contains the number of counted bytes."""
        chunks, size = [], 0
        while chunk := await request.read():
            chunks.append(chunk)
            size += len(chunk)
            # This check is required for bodies without an announced size.
            if size > self._limits.each_bytes:
                return _too_large(self._limits.each_bytes)
            if not self._hold(held, size):
                return _busy()
            # A chunk of one byte is more expensive for the server than for the sender, so yield to other connections
            # after each chunk.
            await asyncio.sleep(0)
        return b"".join(chunks)

    def _hold(self, held: list[int], size: int) -> bool:
        """Count the received bytes of a body, and return whether the limits allow them."""
        kept = self._limits.kept_bytes if size > self._limits.small_bytes else 0
        while self._held_bytes + size - held[0] > self._limits.together_bytes - kept:
            others = ((limit, of) for limit, of in self._reading.items() if of is not held and of[0])
            limit, of = next(others, (None, held))
            if limit is None:
                return False
            limit.reschedule(asyncio.get_running_loop().time())
            self._reading.pop(limit)
            self._held_bytes -= of[0]
            of[0] = 0
        self._held_bytes += size - held[0]
        held[0] = size
        return True


class HeadServer(_Server):
    """A server that handles one request per connection, as soon as the headers arrive. It reads bodies only on demand.

    Args:
        listen: the address and the certificates.
        handle: a function that returns the response for a method, a path and a `Head`.
        connections: the maximum number of open connections.
        header_bytes: the maximum size of one header.
        body_bytes: the maximum size of a body.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """

    def __init__(
        self,
        listen: Listen,
        handle: Callable[[str, str, Head], Awaitable[Reply]],
        *,
        connections: int,
        header_bytes: int = 4096,
        body_bytes: int = 0,
    ) -> None:
        super().__init__(
            listen,
            connections,
            unsent_bytes=MAX_BODIES_BYTES,
            most_bytes=header_bytes + _OTHER_HEADERS_BYTES + body_bytes,
            max_line_size=4096,
            max_headers=32,
            max_field_size=header_bytes,
            read_bufsize=4096,
        )
        self._handle, self._body_bytes = handle, body_bytes

    async def _answer(self, request: Request) -> Reply:
        request.limit(ANSWER_SECONDS)
        reply = await self._handle(request.method, request.path, Head(request, self._body_bytes))
        return Reply(reply.status, reply.body, reply.content_type, close=True)


def _too_large(limit: int) -> Reply:
    return Reply(413, b'{"error":"the body is larger than %d bytes"}' % limit, close=True)


def _too_late() -> Reply:
    return Reply(408, b'{"error":"the body did not arrive in time"}', close=True)


def _busy() -> Reply:
    return Reply(503, b'{"error":"too many requests are being read; try again"}', close=True)
