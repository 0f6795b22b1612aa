"""Answers on the read port: GET and HEAD of what is shown, and what would be, to whom the API server knows.

Nothing that changes anything is answered there. Of bodies, that of a simulation is read, when its sender is known.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from accelkit.errors import AccessError, NotReadyError
from accelkit.extender.reading.reviews import Reviewer
from accelkit.extender.routes import SIMULATE, Routes
from accelkit.inspection.read_port import TOKEN_HEADER
from accelkit.serving.server import Head, Headers, Reply

# Requests under way at once, of tokens that were good lately and of others; each asks the API server at most twice.
_READERS: Final = 8
# How long a request waits for its turn to be one of them.
_WAIT_SECONDS: Final = 2.0


class Reader:
    """Serves those who have a token.

    Args:
        routes: what is shown.
        reviewer: knows who may read.
    """

    def __init__(self, routes: Routes, reviewer: Reviewer) -> None:
        self._routes, self._reviewer = routes, reviewer
        # Whoever comes with made-up tokens is in the way of nobody whose token was good.
        self._known, self._others = asyncio.Semaphore(_READERS), asyncio.Semaphore(_READERS)
        # One is shown after the other, so that kube-scheduler waits for a part of one at most.
        self._turn = asyncio.Lock()

    async def handle(self, method: str, path: str, head: Head) -> Reply:
        """Answer one request by its head; that of a simulation with its body."""
        simulates = path == SIMULATE
        if method not in ({"POST"} if simulates else {"GET", "HEAD"}):
            return _refuse(405, f"this port is for reading; there is no {method} here")
        if not simulates and path not in {"/inspect", "/version"} and not path.startswith("/inspect/"):
            return _refuse(404, f"there is no {path} here; ask for /inspect, /inspect/NODE or /version")
        token = _find_token(head)
        places = self._known if self._reviewer.knows(token) else self._others
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await places.acquire()
        except TimeoutError:
            return _refuse(503, f"{_READERS} others are reading; ask again")
        try:
            # What the API server's proxy asks of who sends a POST.
            await self._reviewer.check(token, "create" if simulates else "get")
            return await (self._simulate(head) if simulates else self._show(path))
        except AccessError as exc:
            return _refuse(exc.status, str(exc))
        except NotReadyError as exc:
            return _refuse(503, str(exc))
        finally:
            places.release()

    async def _show(self, path: str) -> Reply:
        async with self._turn:
            return await self._routes.handle("GET", path, b"")

    async def _simulate(self, head: Head) -> Reply:
        body = await head.read_body()
        # Simulations have turns of their own, so that nobody waits for one to read.
        return body if isinstance(body, Reply) else await self._routes.handle("POST", SIMULATE, body)


def _find_token(headers: Headers) -> str:
    scheme, _, bearer = (headers.get("authorization") or "").partition(" ")
    return headers.get(TOKEN_HEADER.lower()) or (bearer.strip() if scheme.lower() == "bearer" else "")


def _refuse(status: int, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"error": message}))
