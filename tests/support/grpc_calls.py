"""The context of a gRPC call without a server."""

from __future__ import annotations


class RefusedError(Exception):
    """A call that the server aborted, with the details."""


class Context:
    async def abort(self, _code: object, details: str) -> None:
        raise RefusedError(details)
