"""The HTTP server: granian in this process and this event loop, so that the ledger has one writer.

TLS with client certificates is the rule. Plain HTTP is served on the loopback address alone, for the sandbox.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from granian._granian import RSGIProtocolClosed
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.log import LogLevels
from granian.server.embed import Server

from accelkit.errors import ConfigurationError
from accelkit.extender.routes import Reply

# 5,000 whole node objects of 20 KB fit; kube-scheduler sends them where nodeCacheCapable is false.
MAX_BODY_BYTES = 128 * 1024 * 1024
_MAX_PORT = 65535
# kube-scheduler sends a body at once; who takes longer must not hold a connection, nor our end, for ever.
_BODY_SECONDS = 30.0


class _Headers(Protocol):
    def get(self, key: str) -> str | None: ...


class _Scope(Protocol):
    proto: str
    method: str
    path: str
    headers: _Headers


class _HttpProtocol(Protocol):
    def __call__(self) -> Awaitable[bytes]: ...

    def __aiter__(self) -> _HttpProtocol: ...

    def __anext__(self) -> Awaitable[bytes]: ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...


@dataclass(frozen=True)
class Listen:
    """Where to serve, and with which certificates; no certificates means plain HTTP on loopback."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


def parse_listen(
    address: str, *, plain_http: bool, certificate: Path | None, key: Path | None, client_ca: Path | None
) -> Listen:
    """Check where and how to serve.

    Raises:
        ConfigurationError: no address, certificates missing, or plain HTTP beyond the loopback address.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    wrong = ConfigurationError(f"{address!r} is no address to listen on", next_step="write it as 0.0.0.0:32766")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
        number = int(port)
    except ValueError as exc:
        raise wrong from exc
    if not 0 < number <= _MAX_PORT:
        raise wrong
    if plain_http:
        if not loopback:
            raise ConfigurationError(
                f"plain HTTP is served on the loopback address only, not on {host}",
                next_step="give --tls-cert, --tls-key and --client-ca",
            )
        return Listen(host, number)
    if certificate is None or key is None or client_ca is None:
        raise ConfigurationError(
            "the extender serves TLS to clients with certificates",
            next_step="give --tls-cert, --tls-key and --client-ca, or --plain-http on 127.0.0.1",
        )
    for path in (certificate, key, client_ca):
        if not path.is_file():
            raise ConfigurationError(f"{path} is not a file")
    _check_certificates(certificate, key, client_ca)
    return Listen(host, number, certificate, key, client_ca)


async def serve(listen: Listen, handle: Callable[[str, str, bytes], Awaitable[Reply]], stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then let requests under way end.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """
    _check_port(listen)
    reading = set[asyncio.Timeout]()

    async def application(scope: _Scope, protocol: _HttpProtocol) -> None:
        limit = asyncio.timeout(_BODY_SECONDS)
        reading.add(limit)
        try:
            async with limit:
                body = await _body(scope, protocol)
        except RSGIProtocolClosed:
            # The caller hung up amid its body; nobody waits for an answer.
            return
        except TimeoutError:
            protocol.response_bytes(408, [("connection", "close")], b'{"error":"the body did not come in time"}')
            return
        finally:
            reading.discard(limit)
        if body is None:
            reply = Reply(413, b'{"error":"the body is larger than %d bytes"}' % MAX_BODY_BYTES)
        else:
            reply = await handle(scope.method, scope.path, body)
        protocol.response_bytes(reply.status, [("content-type", reply.content_type)], reply.body)

    server = Server(
        application,
        address=listen.host,
        port=listen.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.auto,
        websockets=False,
        log_level=LogLevels.error,
        ssl_cert=listen.certificate,
        ssl_key=listen.key,
        ssl_ca=listen.client_ca,
        ssl_client_verify=listen.client_ca is not None,
        ssl_protocol_min=SSLProtocols.tls12,
    )
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    for limit in reading:
        limit.reschedule(0)
    if not serving.done():
        server.stop()  # type: ignore[no-untyped-call]
    await serving


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


def _check_certificates(certificate: Path, key: Path, client_ca: Path) -> None:
    # The server would end the whole process, without a sentence, over files it cannot use.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password, so that nobody is asked for one.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"certificate {certificate} with key {key} cannot be used: {exc}") from exc
    try:
        context.load_verify_locations(client_ca)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"authority {client_ca} cannot be used: {exc}") from exc


def _check_port(listen: Listen) -> None:
    # The server binds in a thread of its own and would only log a failure.
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen.host, listen.port))
        except OSError as exc:
            raise ConfigurationError(
                f"cannot listen on {listen.host}:{listen.port}: {exc.strerror}",
                next_step="stop what listens there, or choose another port with --listen",
            ) from exc
