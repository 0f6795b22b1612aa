"""Serves HTTP in this process and this event loop, so that the ledger has one writer.

TLS with client certificates is the rule. Plain HTTP is for probes and metrics, and on the loopback address for the
sandbox.
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
from accelkit.serving.messages import HTTP_1, HTTP_2, Headers, Reply, Request
from accelkit.serving.tls import Listen, TlsFiles, make_context

__all__ = ["MAX_BODIES_BYTES", "MAX_BODY_BYTES", "BodyLimits", "Head", "HeadServer", "Headers", "HttpServer", "Reply"]

log = logging.getLogger(__name__)

# 5,000 whole node objects of 20 KB fit; kube-scheduler sends them where nodeCacheCapable is false.
MAX_BODY_BYTES = 128 * 1024 * 1024
# All bodies under way together; each is held twice for a moment, and the extender's memory is limited to 1 GiB.
MAX_BODIES_BYTES = 256 * 1024 * 1024
_CERTIFICATE_SECONDS = 2.0
# kube-scheduler sends a body at once; who takes longer must not hold a connection, nor our end, for ever.
_BODY_SECONDS = 30.0
# Bodies of those who are known by their heads are small.
_SMALL_BODY_SECONDS: Final = 5.0
# Idle clients of Go close after 90 s; then they never send on a connection that we are closing.
_IDLE_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
# An answer that is not fetched in this time is not fetched at all.
_ANSWER_SECONDS: Final = 30.0
_CONNECTIONS: Final = 256
# Of a request that is known by its head, beside its longest header.
_OTHER_HEADERS_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What bodies of requests may take.

    Attributes:
        each_bytes: how long one may be.
        together_bytes: what all may have that are under way, or are answered, at once.
        seconds: so long one may take to come.
        small_bytes: how long a small one may be.
        kept_bytes: what is kept of `together_bytes` for small ones.
    """

    each_bytes: int
    together_bytes: int
    seconds: float
    small_bytes: int = 0
    kept_bytes: int = 0


class Head:
    """The head of a request: its headers, by names without regard to case, and what follows.

    Args:
        request: as it came.
        body_bytes: how long its body may be.
    """

    def __init__(self, request: Request, body_bytes: int) -> None:
        self._request, self._body_bytes = request, body_bytes

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None where it is not there."""
        return self._request.headers.get(key)

    async def read_body(self) -> bytes | Reply:
        """Return the body, or why it is not read; until it is asked for, next to nothing of it is."""
        body = bytearray()
        try:
            async with asyncio.timeout(_SMALL_BODY_SECONDS):
                while len(body) <= self._body_bytes and (chunk := await self._request.read()):
                    body += chunk
        except TimeoutError:
            return _too_late()
        return bytes(body) if len(body) <= self._body_bytes else _too_large(self._body_bytes)


class _Server(ABC):
    """Serves one application on one socket.

    The socket stays open while certificates change: new connections have the new ones, and the others are closed when
    their requests are answered.

    Args:
        listen: where to serve, and with which certificates.
        connections: how many are open at once.
        http2: whether clients that know HTTP/2 are served by it.
        options: of `Connections`.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(self, listen: Listen, connections: int, *, http2: bool = False, **options: Any) -> None:
        self._listen, self._http2 = listen, http2
        self._connections = Connections(self._serve, limit=connections, **options)
        self._socket = open_socket(listen)
        # In the order in which they came: bodies that are coming, and how many bytes of each are there.
        self._reading: dict[asyncio.Timeout, list[int]] = {}
        # How many there were, by the version of HTTP.
        self.requests = Counter({HTTP_1: 0, HTTP_2: 0})
        self._refused = RepeatLog(log, seconds=float("inf"), keys=256)

    def renew(self) -> None:
        """Close every connection when its request is answered, so that callers connect anew."""
        self._connections.end()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let requests under way end.

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
            # The caller hung up amid its body; nobody waits for an answer.
            return Reply(400, b"", close=True)
        except Exception:
            log.exception("a request to %s was not answered", request.path[:100])
            return Reply(500, b'{"error":"this request met a defect; the log has more"}', close=True)

    @abstractmethod
    async def _answer(self, request: Request) -> Reply:
        """Return the answer to one request."""

    def _refuse(self, proven: frozenset[str]) -> Reply | None:
        tls = self._listen.tls
        if tls is None or tls.client_ca is None or tls.client_names & proven:
            return None
        names = ", ".join(sorted(proven))[:300] or "no name"
        self._refused.warn(names, f"a client certificate of {names!r} is refused; --client-name lists those accepted")
        return Reply(403, b'{"error":"no name of the client certificate is accepted here"}', close=True)

    async def _watch_certificates(self, files: TlsFiles) -> None:
        used = seen = files.digest()
        while True:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            before, seen = seen, files.digest()
            # Twice the same: they are not being written just now.
            if seen in {used, None} or seen != before:
                continue
            try:
                self._connections.accept(self._socket, make_context(files, http2=self._http2))
            except ConfigurationError as exc:
                log.error("the former certificates stay in use: %s", exc)  # noqa: TRY400 - the sentence says it
            else:
                log.info("certificates read again")
                self.renew()
            used = seen


class HttpServer(_Server):
    """Serves requests with their bodies.

    Only what has come of a body counts, whatever its head announces. Where there is no room, the one that has been
    coming for longest gives way: callers who mean it send theirs at once.

    Args:
        listen: where to serve, and with which certificates.
        handle: answers method, path and body.
        http2: whether clients that know HTTP/2 are served by it.
        limits: of bodies; None for those of kube-scheduler's.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(
        self,
        listen: Listen,
        handle: Callable[[str, str, bytes], Awaitable[Reply]],
        *,
        http2: bool = True,
        limits: BodyLimits | None = None,
    ) -> None:
        super().__init__(listen, _CONNECTIONS, http2=http2, idle_seconds=_IDLE_SECONDS)
        self._handle = handle
        self._limits = limits or BodyLimits(MAX_BODY_BYTES, MAX_BODIES_BYTES, _BODY_SECONDS)
        self._held_bytes = 0

    async def _answer(self, request: Request) -> Reply:
        if (request.content_length or 0) > self._limits.each_bytes:
            return _too_large(self._limits.each_bytes)
        # Until it is answered: the body is held, and then what was decoded from it.
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
        """Return what `_read` does, in time."""
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
        """Return the body, or why it is not read; `held` is what is counted for it."""
        chunks, size = [], 0
        while chunk := await request.read():
            chunks.append(chunk)
            size += len(chunk)
            # Where nobody said how long it is.
            if size > self._limits.each_bytes:
                return _too_large(self._limits.each_bytes)
            if not self._hold(held, size):
                return _busy()
        return b"".join(chunks)

    def _hold(self, held: list[int], size: int) -> bool:
        """Count what has come of a body; return whether there is room for it."""
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
    """Serves requests by their heads, one for each connection: what they send besides is read where that is asked for.

    Args:
        listen: where to serve, and with which certificates.
        handle: answers method, path and head.
        connections: how many are open at once.
        header_bytes: how long a header may be.
        body_bytes: how long a body may be.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
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
            most_bytes=header_bytes + _OTHER_HEADERS_BYTES + body_bytes,
            max_line_size=4096,
            max_headers=32,
            max_field_size=header_bytes,
            read_bufsize=4096,
        )
        self._handle, self._body_bytes = handle, body_bytes

    async def _answer(self, request: Request) -> Reply:
        request.limit(_ANSWER_SECONDS)
        reply = await self._handle(request.method, request.path, Head(request, self._body_bytes))
        return Reply(reply.status, reply.body, reply.content_type, close=True)


def _too_large(limit: int) -> Reply:
    return Reply(413, b'{"error":"the body is larger than %d bytes"}' % limit, close=True)


def _too_late() -> Reply:
    return Reply(408, b'{"error":"the body did not come in time"}', close=True)


def _busy() -> Reply:
    return Reply(503, b'{"error":"too much is being read; ask again"}', close=True)
