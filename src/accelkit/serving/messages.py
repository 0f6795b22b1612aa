"""Requests and replies, independent of the HTTP version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

HTTP_1: Final = "HTTP/1.1"
HTTP_2: Final = "HTTP/2"
# Responses do not reveal the name and version of the HTTP library.
SERVER: Final = "accelkit"
# A response that the client does not read within this time is dropped.
ANSWER_SECONDS: Final = 30.0
_UNAVAILABLE: Final = 503
_RETRY_SECONDS: Final = "1"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response; if `close` is set, the connection is closed after it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    close: bool = False

    def list_headers(self) -> list[tuple[str, str]]:
        """Return the headers of the reply."""
        headers = [("Server", SERVER), ("Content-Type", self.content_type)]
        if self.status == _UNAVAILABLE:
            headers.append(("Retry-After", _RETRY_SECONDS))
        return headers


class Headers(Protocol):
    """The headers of a request, with case-insensitive names."""

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None if it is missing."""


class Request(Protocol):
    """A request whose head has arrived.

    Attributes:
        protocol: `HTTP_1` or `HTTP_2`.
        method: the received method.
        path: the decoded path without the query.
        content_length: the announced size of the body; None if the client announces none.
        names: the names in the verified client certificate.
        headers: the headers of the head.
    """

    @property
    def protocol(self) -> str: ...  # noqa: D102 - documented above, as are the following properties

    @property
    def method(self) -> str: ...  # noqa: D102

    @property
    def path(self) -> str: ...  # noqa: D102

    @property
    def content_length(self) -> int | None: ...  # noqa: D102

    @property
    def names(self) -> frozenset[str]: ...  # noqa: D102

    @property
    def headers(self) -> Headers: ...  # noqa: D102

    def take(self) -> bytes | None:
        """Return the whole body if it has already arrived; otherwise return None and consume nothing."""

    async def read(self) -> bytes:
        """Return the next received part of the body; empty at its end. Little of it is read before the first call.

        Raises:
            ConnectionError: the client disconnected.
        """

    def limit(self, seconds: float) -> None:
        """Limit the lifetime of the connection, even during a request."""


# Never raises.
Answer: TypeAlias = Callable[[Request], Awaitable[Reply]]
