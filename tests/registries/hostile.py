"""A registry in this process that misbehaves as a test tells it to, and answers honestly wherever it was told nothing.

    with HostileRegistry() as registry:
        digest = registry.put_manifest("team/app", "v1", body)
        registry.on("GET", "/v2/team/app/blobs/.*", misbehaviour.cut_after(100))
        ...
        assert registry.received("GET", "/v2/team/app/blobs/.*")[1].headers["Range"] == "bytes=100-"

A handler gets the request and returns an answer, or None for "as if I were not here": an earlier handler or the honest
registry answers then. Ready-made ones stand in `misbehaviour`.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from multidict import CIMultiDictProxy
from registries.memory import MemoryRegistry

__all__ = ["Handler", "HostileRegistry", "Received"]

Handler = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse | None] | None]

HONEST = web.AppKey("honest", MemoryRegistry)

_DEADLINE = 60.0
_LARGEST_PUSH = 1 << 30


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDictProxy[str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("Authorization")


class HostileRegistry:
    """Use as a context manager: it listens on a port of 127.0.0.1 in a thread of its own.

    Args:
        referrers: whether the referrers API exists where no handler says otherwise.
        tls: what to serve HTTPS with; plain HTTP without it.
    """

    def __init__(self, *, referrers: bool = True, tls: ssl.SSLContext | None = None) -> None:
        self.honest = MemoryRegistry(referrers=referrers)
        self.put_blob = self.honest.put_blob
        self.put_manifest = self.honest.put_manifest
        self.requests: list[Received] = []
        self._handlers: list[tuple[str, re.Pattern[str], Handler]] = []
        self._tls = tls
        self._port = 0

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`, as an image reference begins."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, or with https."""
        return f"{'https' if self._tls else 'http'}://{self.host}"

    def on(self, method: str, path_pattern: str, handler: Handler) -> None:
        """Ask `handler` first from now on.

        Args:
            method: an HTTP method, or `*` for all.
            path_pattern: a regular expression for the whole path, without the query.
            handler: may be a coroutine function; it runs in the registry's thread.
        """
        self._handlers.insert(0, (method, re.compile(path_pattern), handler))

    def received(self, method: str, path_pattern: str) -> list[Received]:
        """The requests of this method (`*` for all) and path so far, in their order."""
        pattern = re.compile(path_pattern)
        return [each for each in self.requests if method in ("*", each.method) and pattern.fullmatch(each.path)]

    def __enter__(self) -> Self:
        started = Future[asyncio.AbstractEventLoop]()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        self._loop = started.result(_DEADLINE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_DEADLINE)
        assert not self._thread.is_alive(), "the hostile registry does not end"

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            asyncio.run(self._serve(started))
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        self._end = asyncio.Event()
        application = web.Application(client_max_size=_LARGEST_PUSH)
        application[HONEST] = self.honest
        application.router.add_route("*", "/{path:.*}", self._answer)
        # Handlers that hang on purpose are cancelled at the end, and nobody waits for them.
        runner = web.AppRunner(application, shutdown_timeout=0.01, access_log=None, handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
            await site.start()
            self._port = runner.addresses[0][1]
            started.set_result(asyncio.get_running_loop())
            await self._end.wait()
        finally:
            # Closing a connection waits until a client that may be gone has read what is still to be sent to it. To be
            # ended at once it must still be open: Python 3.11.2 cannot abort one of TLS that was closed twice.
            for connection in runner.server.connections if runner.server else ():
                if connection.transport is not None:
                    connection.transport.abort()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(Received(request.method, request.path, dict(request.query), request.headers))
        for method, pattern, handler in list(self._handlers):
            if method in ("*", request.method) and pattern.fullmatch(request.path):
                answer = handler(request)
                if inspect.isawaitable(answer):
                    answer = await answer
                if answer is not None:
                    return answer
        return await self.honest.answer(request)
