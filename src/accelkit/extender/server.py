"""Serves HTTP: granian in this process and this event loop, so that the ledger has one writer.

TLS with client certificates is the rule. Plain HTTP is served on the loopback address alone, for the sandbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from granian._granian import RSGIProtocolClosed, SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.log import LogLevels
from granian.server.embed import Server

from accelkit.errors import ConfigurationError
from accelkit.extender.listen import Listen, TlsFiles, check_certificates
from accelkit.extender.routes import Reply

log = logging.getLogger(__name__)

# 5,000 whole node objects of 20 KB fit; kube-scheduler sends them where nodeCacheCapable is false.
MAX_BODY_BYTES = 128 * 1024 * 1024
_BACKLOG = 1024
_CERTIFICATE_SECONDS = 2.0
# kube-scheduler sends a body at once; who takes longer must not hold a connection, nor our end, for ever.
_BODY_SECONDS = 30.0


class Headers(Protocol):
    """The headers of a request, by names in lower case."""

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None where it is not there."""


class _Scope(Protocol):
    proto: str
    method: str
    path: str
    headers: Headers


class _HttpProtocol(Protocol):
    def __call__(self) -> Awaitable[bytes]: ...

    def __aiter__(self) -> _HttpProtocol: ...

    def __anext__(self) -> Awaitable[bytes]: ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...


class _Server(ABC):
    """Serves one application on one socket, by one granian server after the other.

    A server ends with all of its connections, while the next one serves from the same socket: that is how changed
    certificates come into force, and how a caller is made to connect anew. Requests under way are answered.

    Args:
        listen: where to serve, and with which certificates.
        connections: how many are open at once; None for as many as come.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(self, listen: Listen, connections: int | None = None) -> None:
        self._listen = listen
        self._connections = connections
        self._socket = _open_socket(listen)
        self._renew = asyncio.Event()
        self._reading = set[asyncio.Timeout]()

    def renew(self) -> None:
        """Close every connection when its request is answered, and read the certificates again."""
        self._renew.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let requests under way end."""
        with self._socket:
            await self._serve(stop)

    async def _serve(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        watching = asyncio.create_task(self._watch_certificates())
        former = set[asyncio.Task[None]]()
        try:
            while True:
                self._renew.clear()
                server = self._server()
                serving = asyncio.create_task(server.serve())
                renewing = asyncio.create_task(self._renew.wait())
                await asyncio.wait({serving, stopping, renewing}, return_when=asyncio.FIRST_COMPLETED)
                renewing.cancel()
                if serving.done() or stop.is_set():
                    break
                ending = asyncio.create_task(_end(server, serving))
                former.add(ending)
                ending.add_done_callback(former.discard)
        finally:
            stopping.cancel()
            watching.cancel()
        for limit in self._reading:
            limit.reschedule(asyncio.get_running_loop().time())
        await _end(server, serving)
        await asyncio.gather(*former)

    def _server(self) -> Server:
        at, tls = self._listen, self._listen.tls
        return _SocketServer(
            self._application,
            self._socket,
            address=at.host,
            port=at.port,
            interface=Interfaces.RSGI,
            # An answer can close a connection of HTTP/1.1; those of HTTP/2 stay.
            http=HTTPModes.http1,
            websockets=False,
            backpressure=self._connections,
            log_level=LogLevels.error,
            ssl_cert=tls and tls.certificate,
            ssl_key=tls and tls.key,
            ssl_ca=tls and tls.client_ca,
            ssl_client_verify=tls is not None and tls.client_ca is not None,
            ssl_protocol_min=SSLProtocols.tls12,
        )

    async def _application(self, scope: _Scope, protocol: _HttpProtocol) -> None:
        reply = await self._answer(scope, protocol)
        if reply is None:
            # The caller hung up amid its body; nobody waits for an answer.
            return
        headers = [("content-type", reply.content_type), *([("connection", "close")] if reply.close else [])]
        protocol.response_bytes(reply.status, headers, reply.body)

    @abstractmethod
    async def _answer(self, scope: _Scope, protocol: _HttpProtocol) -> Reply | None:
        """Return the answer to one request; None where nobody waits for one."""

    async def _watch_certificates(self) -> None:
        files = self._listen.tls
        if files is None:
            return
        used = seen = _digest(files)
        while True:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            before, seen = seen, _digest(files)
            # Twice the same: they are not being written just now.
            if seen in {used, None} or seen != before:
                continue
            try:
                check_certificates(files)
            except ConfigurationError as exc:
                log.error("the former certificates stay in use: %s", exc)  # noqa: TRY400 - the sentence says it
            else:
                log.info("certificates read again")
                self.renew()
            used = seen


class HttpServer(_Server):
    """Serves requests with their bodies.

    Args:
        listen: where to serve, and with which certificates.
        handle: answers method, path and body.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(self, listen: Listen, handle: Callable[[str, str, bytes], Awaitable[Reply]]) -> None:
        super().__init__(listen)
        self._handle = handle

    async def _answer(self, scope: _Scope, protocol: _HttpProtocol) -> Reply | None:
        limit = asyncio.timeout(_BODY_SECONDS)
        self._reading.add(limit)
        try:
            async with limit:
                body = await _body(scope, protocol)
        except RSGIProtocolClosed:
            return None
        except TimeoutError:
            return Reply(408, b'{"error":"the body did not come in time"}', close=True)
        finally:
            self._reading.discard(limit)
        if body is None:
            return Reply(413, b'{"error":"the body is larger than %d bytes"}' % MAX_BODY_BYTES)
        return await self._handle(scope.method, scope.path, body)


class HeadServer(_Server):
    """Serves requests by their heads: what they send besides is not read.

    Args:
        listen: where to serve, and with which certificates.
        handle: answers method, path and headers.
        connections: how many are open at once.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(
        self, listen: Listen, handle: Callable[[str, str, Headers], Awaitable[Reply]], *, connections: int
    ) -> None:
        super().__init__(listen, connections)
        self._handle = handle

    async def _answer(self, scope: _Scope, _: _HttpProtocol) -> Reply:
        return await self._handle(scope.method, scope.path, scope.headers)


# Its type stub has no constructor.
_holder: Any = SocketHolder


class _SocketServer(Server):
    """granian on a socket of ours; its own would be closed with it, and with it who waits there."""

    def __init__(self, application: Callable[..., Awaitable[None]], listening: socket.socket, **options: Any) -> None:
        self._listening = listening
        super().__init__(application, **options)

    _shd: Any

    def _init_shared_socket(self) -> None:
        # The descriptor is closed by granian.
        self._shd = _holder(os.dup(self._listening.fileno()), False, _BACKLOG)  # noqa: FBT003 - its signature


async def _end(server: Server, serving: asyncio.Task[None]) -> None:
    if not serving.done():
        server.stop()  # type: ignore[no-untyped-call]
    await serving


def _digest(files: TlsFiles) -> bytes | None:
    """Return a digest of the files, None where one cannot be read."""
    digest = hashlib.sha256()
    try:
        for path in filter(None, (files.certificate, files.key, files.client_ca)):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return digest.digest()


async def _body(scope: _Scope, protocol: _HttpProtocol) -> bytes | None:
    length = scope.headers.get("content-length")
    if length is not None:
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            return None
        return await protocol()
    chunks = bytearray()
    async for chunk in protocol:
        chunks += chunk
        if len(chunks) > MAX_BODY_BYTES:
            return None
    return bytes(chunks)


def _open_socket(listen: Listen) -> socket.socket:
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
