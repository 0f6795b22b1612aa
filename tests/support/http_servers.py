"""HTTP servers that answer by a function of a test."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL


@asynccontextmanager
async def serve_http(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[URL]:
    """Serve requests of any method and path on the loopback; yields the origin."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(application, host="127.0.0.1", scheme="https" if tls else "http")
    await server.start_server(ssl=tls)
    try:
        yield server.make_url("/").origin()
    finally:
        await server.close()
