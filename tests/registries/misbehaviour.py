"""Ways for a `HostileRegistry` to misbehave, each a handler for `HostileRegistry.on`.

Those with `times` misbehave that often, then answer honestly, so that a test sees whether a client tries again.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Mapping, Sequence

from aiohttp import web
from registries.hostile import HONEST, Handler
from registries.memory import INDEX, refusal

__all__ = [
    "answering",
    "basic_auth",
    "changed",
    "cut_after",
    "dripping",
    "dropped",
    "endless",
    "failing",
    "ignoring_ranges",
    "lying_digest",
    "paged_referrers",
    "redirecting",
    "stalled",
    "token_auth",
]

_CHUNK = b" " * 65536


def answering(
    status: int = 200, body: bytes = b"", media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Handler:
    """Answers this, whatever was asked for."""
    return lambda _: web.Response(status=status, body=body, content_type=media_type, headers=headers)


def failing(status: int, *, times: int | None = None, retry_after: str | None = None) -> Handler:
    """Refuses with a status, for ever or so many times; `retry_after` is the header's value, seconds or a date."""
    countdown = _countdown(times)
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    code = {401: "UNAUTHORIZED", 403: "DENIED", 404: "NAME_UNKNOWN", 429: "TOOMANYREQUESTS"}.get(status, "UNKNOWN")
    return lambda _: refusal(status, code, headers) if next(countdown) else None


def lying_digest(digest: str) -> Handler:
    """Answers honestly but for the header Docker-Content-Digest."""

    async def handler(request: web.Request) -> web.Response:
        answer = await request.app[HONEST].answer(request)
        answer.headers["Docker-Content-Digest"] = digest
        return answer

    return handler


def changed(body: bytes) -> Handler:
    """Answers with other bytes under the honest headers."""

    async def handler(request: web.Request) -> web.Response:
        answer = await request.app[HONEST].answer(request)
        answer.body = body
        return answer

    return handler


def cut_after(size_bytes: int, *, times: int | None = 1) -> Handler:
    """Announces the whole answer, sends that many bytes of it and closes the connection."""
    countdown = _countdown(times)

    async def handler(request: web.Request) -> web.StreamResponse | None:
        if not next(countdown):
            return None
        honest = await request.app[HONEST].answer(request)
        whole = honest.body
        assert isinstance(whole, bytes)
        assert size_bytes < len(whole), "there is nothing to cut"
        answer = web.StreamResponse(status=honest.status, headers=honest.headers)
        answer.content_length = len(whole)
        await answer.prepare(request)
        await answer.write(whole[:size_bytes])
        # Closed, not aborted: what was sent still arrives.
        assert request.transport is not None
        request.transport.close()
        return answer

    return handler


def dripping(*, headers: bool = False) -> Handler:
    """Sends a blank now and then, for ever: never silent, never done. With `headers`, not even these come to an end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        assert request.transport is not None
        if not headers:
            await answer.prepare(request)
        while True:
            if headers:
                request.transport.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            else:
                await answer.write(b" ")
            await asyncio.sleep(0.02)

    return handler


def dropped(*, times: int | None = 1) -> Handler:
    """Closes the connection without a word."""
    countdown = _countdown(times)

    def handler(request: web.Request) -> web.StreamResponse | None:
        if not next(countdown):
            return None
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return handler


def ignoring_ranges() -> Handler:
    """Answers a request for a part with the whole and 200."""

    async def handler(request: web.Request) -> web.Response:
        whole = request.clone(headers={k: v for k, v in request.headers.items() if k.lower() != "range"})
        return await request.app[HONEST].answer(whole)

    return handler


def redirecting(base_url: str, *, status: int = 307) -> Handler:
    """Sends the client to the same path, query included, of another host."""
    return lambda request: web.Response(status=status, headers={"Location": f"{base_url}{request.rel_url}"})


def endless(media_type: str, *, begin: bytes = b"{", limit_bytes: int = 1 << 30) -> Handler:
    """Sends blanks without announcing a length, until the client goes or the limit is reached."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": media_type})
        await answer.prepare(request)
        await answer.write(begin)
        for _ in range(limit_bytes // len(_CHUNK)):
            await answer.write(_CHUNK)
        return answer

    return handler


def stalled() -> Handler:
    """Never answers, until the client goes or the registry ends."""

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return handler


def paged_referrers(descriptors: Sequence[Mapping[str, object]], *, page: int, endlessly: bool = False) -> Handler:
    """Lists these referrers in pages with a Link to the next; with `endlessly`, the last links to the first."""

    def handler(request: web.Request) -> web.Response:
        start = int(request.query.get("start", "0"))
        following = start + page
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors[start:following]}
        answer = web.Response(body=json.dumps(index).encode(), content_type=INDEX)
        if following >= len(descriptors) and endlessly:
            following = 0
        if following < len(descriptors):
            answer.headers["Link"] = f'<{request.path}?start={following}>; rel="next"'
        return answer

    return handler


def basic_auth(user: str, password: str) -> Handler:
    """Demands this user and password, then steps aside."""
    return _guarded("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(), 'Basic realm="test"')


def token_auth(token: str, *, realm: str, scope: str, service: str = "test") -> Handler:
    """Demands this bearer token, names where to get it, then steps aside; the realm itself is the test's to serve."""
    return _guarded(f"Bearer {token}", f'Bearer realm="{realm}",service="{service}",scope="{scope}"')


def _guarded(authorization: str, challenge: str) -> Handler:
    def handler(request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") == authorization:
            return None
        return refusal(401, "UNAUTHORIZED", {"WWW-Authenticate": challenge})

    return handler


def _countdown(times: int | None) -> itertools.chain[bool]:
    return itertools.chain(itertools.repeat(True, times) if times is not None else (), itertools.repeat(times is None))
