"""Requests and responses, independent of the HTTP version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

HTTP_1: Final = "HTTP/1.1"
HTTP_2: Final = "HTTP/2"
# Responses do not reveal the name and version of the HTTP library.
SERVER: Final = "accelkit"
# A response that the client does not read within this time is discarded.
ANSWER_SECONDS: Final = 30.0
_UNAVAILABLE: Final = 503
_RETRY_SECONDS: Final = "1"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response. If `close` is set, the connection is closed after the response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    close: bool = False

    def list_headers(self) -> list[tuple[str, str]]:
        """Return the headers of the response."""
        headers = [("Server", SERVER), ("Content-Type", self.content_type)]
        if self.status == _UNAVAILABLE:
            headers.append(("Retry-After", _RETRY_SECONDS))
        return headers


class Headers(Protocol):
    """The headers of a request, with case-insensitive names."""

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None if it is missing."""


class Request(Protocol):
    """A request whose headers have arrived.

    Attributes:
        protocol: `HTTP_1` or `HTTP_2`.
        method: the HTTP method.
        path: the decoded path, without the query string.
        content_length: the announced size of the body; None if the client does not announce a size.
        names: the names in the verified client certificate.
        headers: the headers of the request.
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
        """Return the complete body if it has already arrived; otherwise, return None without consuming data."""

    async def read(self) -> bytes:
        """Return the next part of the body; empty at the end of the body.

        Only a small part of the body is received before the first call.

        Raises:
            ConnectionError: the client disconnected.
        """

    def limit(self, seconds: float) -> None:
        """Limit the remaining lifetime of the connection, in seconds. It is closed even during a request."""


# A function that returns the response to a request and never raises an exception.
Answer: TypeAlias = Callable[[Request], Awaitable[Reply]]
