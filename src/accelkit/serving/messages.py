"""Requests and replies, whichever version of HTTP they come and go by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

HTTP_1: Final = "HTTP/1.1"
HTTP_2: Final = "HTTP/2"
# What answers are written in is nobody's concern.
SERVER: Final = "accelkit"
_UNAVAILABLE: Final = 503
_RETRY_SECONDS: Final = "1"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer; `close` ends the connection with it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    close: bool = False

    def list_headers(self) -> list[tuple[str, str]]:
        """Return the headers that say what it is."""
        headers = [("Server", SERVER), ("Content-Type", self.content_type)]
        if self.status == _UNAVAILABLE:
            headers.append(("Retry-After", _RETRY_SECONDS))
        return headers


class Headers(Protocol):
    """The headers of a request, by names without regard to case."""

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None where it is not there."""


class Request(Protocol):
    """A request whose head is there.

    Attributes:
        protocol: `HTTP_1` or `HTTP_2`.
        method: as it came.
        path: decoded, without a query.
        content_length: how long the body is said to be; None where nobody says.
        names: of the certificate that the client has proven to hold.
        headers: of the head.
    """

    @property
    def protocol(self) -> str: ...  # noqa: D102 - said above, as those below

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
        """Return the whole body where it is there already, else None, and nothing is taken."""

    async def read(self) -> bytes:
        """Return what has come of the body, nothing at its end; until it is asked for, next to nothing of it is read.

        Raises:
            ConnectionError: the caller hung up.
        """

    def limit(self, seconds: float) -> None:
        """Close the connection at the latest after this time, whatever is under way then."""


# Never raises.
Answer: TypeAlias = Callable[[Request], Awaitable[Reply]]
