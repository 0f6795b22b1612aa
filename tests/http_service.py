"""The extender's HTTP server on a free port, its certificates, and an API server for it that speaks HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web
from aiohttp.test_utils import TestServer
from fake_api.kubeconfig import write_kubeconfig
from fake_api.server import FakeApi
from ports import free_port

from accelkit.errors import ApiError
from accelkit.install.certificates.issuing import Authority, KeyPair
from accelkit.serving.server import BodyLimits, HttpServer, Reply
from accelkit.serving.tls import Listen, TlsFiles

Handler: TypeAlias = Callable[[str, str, bytes], Awaitable[Reply]]
# Status, headers and body.
Answer: TypeAlias = tuple[int, dict[str, str], bytes]

# For what happens within milliseconds on a machine that does nothing else.
PATIENCE_SECONDS = 60.0
# Of the event loop, from a connection in the kernel's queue to one that the server knows: three, and some more.
_TURNS_OF_ACCEPT = 8


async def hello(*_request: object) -> Reply:
    """Answer each request with "hello"."""
    return Reply(200, b"hello")


class RunningServer(HttpServer):
    """A server that runs until `stop` is called; `ended` is its task."""

    def __init__(self, at: Listen, handle: Handler, limits: BodyLimits | None = None) -> None:
        super().__init__(at, handle, limits=limits)
        stop = asyncio.Event()
        self.stop = stop.set
        self.ended = asyncio.create_task(self.run(stop))


@contextlib.asynccontextmanager
async def serving(
    handle: Handler, *, host: str = "127.0.0.1", tls: TlsFiles | None = None, limits: BodyLimits | None = None
) -> AsyncIterator[tuple[RunningServer, Listen]]:
    """Serve `handle` on a free port; yields the server and where it listens, and stops it in the end."""
    at = Listen(host, free_port(), tls)
    server = RunningServer(at, handle, limits)
    try:
        yield server, at
    finally:
        server.stop()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.ended


@contextlib.asynccontextmanager
async def connected(at: Listen, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    """A connection to the server."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def reconnected(at: Listen, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    """A connection that was served once, made while the server is being renewed; who ends then drops new callers."""
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                connection = await stack.enter_async_context(connected(at, tls))
                await connection.ask("GET", "/")
                break
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.005)
        yield connection


class Connection:
    """One connection of HTTP/1.1, with each byte in our hands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", headers: Sequence[str] = ()) -> Answer:
        """Send a request and return status, headers and body of its answer."""
        await self.send(method, path, body, headers)
        return await self.answer()

    async def send(self, method: str, path: str, body: bytes = b"", headers: Sequence[str] = ()) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", *(headers or [f"Content-Length: {len(body)}"])]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body

    async def closed(self) -> bool:
        """Wait until the server has closed the connection, without another byte."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    @property
    def certificate(self) -> bytes:
        """The server's certificate, in DER."""
        certificate: bytes = self.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate


class Pki:
    """An authority's certificates as files: `files` of the server, and the client's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority("ours")
        authorities = folder / "ca.crt"
        authorities.write_bytes(self.authority.certificate)
        self.files = TlsFiles(folder / "server.crt", folder / "server.key", authorities, frozenset({"kube-scheduler"}))
        self.issue_server()
        self.write("client", self.authority.issue_client("kube-scheduler"))
        self.write("stranger", Authority("others").issue_client("kube-scheduler"))

    def issue_server(self) -> bytes:
        """Give the server another certificate; return it in DER."""
        pair = self.authority.issue_server("accelkit-extender", ("127.0.0.1",))
        self.write("server", pair)
        return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())

    def write(self, name: str, pair: KeyPair) -> None:
        (self.folder / f"{name}.crt").write_bytes(pair.certificate)
        (self.folder / f"{name}.key").write_bytes(pair.key)

    def client(self, name: str = "client") -> ssl.SSLContext:
        """How a client connects: by one of our files, or without a certificate."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if name:
            context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context


class ServedApi(FakeApi):
    """A FakeApi that is reached over HTTP; a watch shows what the test puts into `events`, by path."""

    def __init__(self) -> None:
        super().__init__()
        self.events = defaultdict[str, asyncio.Queue[object]](asyncio.Queue)

    @contextlib.asynccontextmanager
    async def served(self, folder: Path) -> AsyncIterator[Path]:
        """Serve; yields the path of a kubeconfig."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        async with TestServer(application, shutdown_timeout=0) as server:
            try:
                yield write_kubeconfig(folder, str(server.make_url("")).rstrip("/"))
            finally:
                # A client that was cancelled may have left a connection that is not accepted yet. The server closes the
                # connections that it knows; the collector would find another one during a later test.
                for _ in range(_TURNS_OF_ACCEPT):
                    await asyncio.sleep(0)

    def show(self, path: str, kind: str, item: dict[str, Any]) -> None:
        """Have the watch of a collection show a change."""
        metadata = {"resourceVersion": "1", **item["metadata"]}
        self.events[path].put_nowait({"type": kind, "object": {**item, "metadata": metadata}})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        options: dict[str, Any] = {"query": dict(request.query)} if request.method != "DELETE" else {}
        if request.content_type == "application/json-patch+json":
            options["kind"] = "json"
        body = [json.loads(await request.read() or b"null")] if request.method != "GET" else []
        try:
            answer = await getattr(self, request.method.lower())(request.path, *body, **options)
        except ApiError as exc:
            if exc.unanswered and isinstance(request.transport, asyncio.Transport):
                request.transport.abort()
            return web.json_response({"message": str(exc), "reason": exc.reason}, status=exc.status or 500)
        return web.Response(body=answer)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(json.dumps(await self.events[request.path].get()).encode() + b"\n")
