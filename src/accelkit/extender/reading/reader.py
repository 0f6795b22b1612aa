"""Answers on the read port: GET and HEAD of what is shown, to whom the API server knows, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from accelkit.errors import AccessError, NotReadyError
from accelkit.extender.reading.reviews import Reviewer
from accelkit.extender.routes import Reply, Routes
from accelkit.extender.server import Headers
from accelkit.inspection.read_port import TOKEN_HEADER

# Requests under way at once; each asks the API server at most twice.
_READERS: Final = 8


class Reader:
    """Serves those who have a token.

    Args:
        routes: what is shown.
        reviewer: knows who may read.
    """

    def __init__(self, routes: Routes, reviewer: Reviewer) -> None:
        self._routes, self._reviewer = routes, reviewer
        self._under_way = 0
        # One is shown after the other, so that kube-scheduler waits for a part of one at most.
        self._turn = asyncio.Lock()

    async def handle(self, method: str, path: str, headers: Headers) -> Reply:
        """Answer one request by its head."""
        if method not in {"GET", "HEAD"}:
            return _refuse(405, f"this port is for reading; there is no {method} here")
        if path not in {"/inspect", "/version"} and not path.startswith("/inspect/"):
            return _refuse(404, f"there is no {path} here; ask for /inspect, /inspect/NODE or /version")
        if self._under_way >= _READERS:
            return _refuse(503, f"{_READERS} others are reading; ask again")
        self._under_way += 1
        try:
            await self._reviewer.check(_find_token(headers))
            async with self._turn:
                return await self._routes.handle("GET", path, b"")
        except AccessError as exc:
            return _refuse(exc.status, str(exc))
        except NotReadyError as exc:
            return _refuse(503, str(exc))
        finally:
            self._under_way -= 1


def _find_token(headers: Headers) -> str:
    scheme, _, bearer = (headers.get("authorization") or "").partition(" ")
    return headers.get(TOKEN_HEADER.lower()) or (bearer.strip() if scheme.lower() == "bearer" else "")


def _refuse(status: int, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"error": message}))
