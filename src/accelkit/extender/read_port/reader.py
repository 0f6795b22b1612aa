"""Responses on the read port: the state for GET and HEAD, and simulations, for clients with an API server token.

Requests on this port are read-only. The body of a request is read only for a simulation, after the client is
authorized.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from accelkit.errors import AccessError, NotReadyError
from accelkit.extender.read_port.reviews import Reviewer
from accelkit.extender.routes import SIMULATE, Routes
from accelkit.inspection.read_port import TOKEN_HEADER
from accelkit.serving.server import Head, Headers, Reply

# Limit on concurrent requests, separately for recently valid tokens and for other tokens. Each request requires at most
# two reviews.
_READERS: Final = 8
# Maximum time for which a request is queued.
_WAIT_SECONDS: Final = 2.0


class Reader:
    """Handler of requests from clients with a token.

    Args:
        routes: the routes that handle the requests.
        reviewer: the reviewer that checks whether a client may read.
    """

    def __init__(self, routes: Routes, reviewer: Reviewer) -> None:
        self._routes, self._reviewer = routes, reviewer
        # Clients with invalid tokens must not delay clients whose token was valid.
        self._recent_tokens, self._other_tokens = asyncio.Semaphore(_READERS), asyncio.Semaphore(_READERS)
        # Requests are handled one at a time, so that kube-scheduler never waits for more than one of these requests.
        self._turn = asyncio.Lock()

    async def handle(self, method: str, path: str, head: Head) -> Reply:
        """Handle one request, and read the body only for a simulation."""
        simulates = path == SIMULATE
        if method not in ({"POST"} if simulates else {"GET", "HEAD"}):
            return _refuse(405, f"this port is read-only and does not accept {method}")
        if not simulates and path not in {"/inspect", "/version"} and not path.startswith("/inspect/"):
            return _refuse(404, f"{path} does not exist on this port; request /inspect, /inspect/NODE or /version")
        token = _find_token(head)
        places = self._recent_tokens if self._reviewer.was_valid_recently(token) else self._other_tokens
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await places.acquire()
        except TimeoutError:
            return _refuse(503, f"{_READERS} other requests are in progress; try again")
        try:
            # The API server's proxy checks the same verb for the client.
            await self._reviewer.check(token, "create" if simulates else "get")
            return await (self._simulate(head) if simulates else self._answer(path))
        except AccessError as exc:
            return _refuse(exc.status, str(exc))
        except NotReadyError as exc:
            return _refuse(503, str(exc))
        finally:
            places.release()

    async def _answer(self, path: str) -> Reply:
        async with self._turn:
            return await self._routes.handle("GET", path, b"")

    async def _simulate(self, head: Head) -> Reply:
        body = await head.read_body()
        # Simulations do not use this lock, so that other requests do not wait for them.
        return body if isinstance(body, Reply) else await self._routes.handle("POST", SIMULATE, body)


def _find_token(headers: Headers) -> str:
    scheme, _, bearer = (headers.get("authorization") or "").partition(" ")
    return headers.get(TOKEN_HEADER.lower()) or (bearer.strip() if scheme.lower() == "bearer" else "")


def _refuse(status: int, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"error": message}))
