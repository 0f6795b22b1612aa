"""An HTTP/2 request that may still be arriving, and the unsent part of its response."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from accelkit.serving.messages import HTTP_2

_EMPTY: Final = memoryview(b"")


class StreamHeaders:
    """The headers of a request, with case-insensitive names.

    Args:
        items: the header names in lower case, and their values.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        self._items = items

    def get(self, key: str) -> str | None:
        """Return the first value of a header; None if it is missing."""
        wanted = key.lower().encode()
        for name, value in self._items:
            if name == wanted:
                return value.decode(errors="replace")
        return None


class Stream:
    """A `Request`, and the unsent part of its response.

    Args:
        number: the number of the stream.
        items: the names and values of the headers.
        names: the names in the verified client certificate.
        taken: a function that is called with the number of body bytes that were read, so that the client may send the
            same number of additional bytes.
        limit: a function that closes the connection after at most the given number of seconds.

    Attributes:
        rest: the unsent part of the response.
        complete: whether the complete request has arrived.
        lost: whether the client no longer waits for a response.
        timer: the timer that discards the response if the client does not read it.
    """

    __slots__ = (
        "_pieces",
        "_taken",
        "_waiting",
        "complete",
        "content_length",
        "headers",
        "limit",
        "lost",
        "method",
        "names",
        "number",
        "path",
        "rest",
        "timer",
    )

    def __init__(
        self,
        number: int,
        items: Sequence[tuple[bytes, bytes]],
        names: frozenset[str],
        taken: Callable[[Stream, int], None],
        limit: Callable[[float], None],
    ) -> None:
        self.number, self.names, self.limit = number, names, limit
        self.headers = StreamHeaders(items)
        self.method = self.headers.get(":method") or ""
        self.path = _decode_path(self.headers.get(":path") or "")
        length = self.headers.get("content-length") or ""
        self.content_length = int(length) if length.isascii() and length.isdigit() else None
        self.complete = self.lost = False
        self.rest = _EMPTY
        self.timer: asyncio.TimerHandle | None = None
        self._taken = taken
        # Received parts of the body, each with its size in the flow-control windows, including padding.
        self._pieces = deque[tuple[bytes, int]]()
        self._waiting: asyncio.Future[None] | None = None

    @property
    def protocol(self) -> str:
        """The protocol of the request."""
        return HTTP_2

    def take(self) -> bytes | None:
        """Return the complete body if it has already arrived; otherwise, return None."""
        if not self.complete:
            return None
        body = b"".join(piece for piece, _ in self._pieces)
        if counted := self.drop():
            self._taken(self, counted)
        return body

    async def read(self) -> bytes:
        """Return the next part of the body; empty at the end of the body.

        Raises:
            ConnectionError: the client disconnected or reset the stream.
        """
        while True:
            while self._pieces:
                piece, counted = self._pieces.popleft()
                self._taken(self, counted)
                if piece:
                    return piece
            if self.complete:
                return b""
            if self.lost:
                raise ConnectionResetError("the client cancelled its request")
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def feed(self, piece: bytes, counted: int) -> None:
        """Add a part of the body. `counted` is the number of bytes that it uses in the flow-control windows."""
        self._pieces.append((piece, counted))
        self._wake()

    def end(self) -> None:
        """Record that the complete request has arrived."""
        self.complete = True
        self._wake()

    def lose(self) -> None:
        """Record that the client no longer waits for a response."""
        self.lost, self.rest = True, _EMPTY
        self.stop_timer()
        self._wake()

    def drop(self) -> int:
        """Discard the unread part of the body, and return the bytes that it used in the flow-control windows."""
        counted = sum(each for _, each in self._pieces)
        self._pieces.clear()
        return counted

    def stop_timer(self) -> None:
        """Cancel the timer that discards the response."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _decode_path(text: str) -> str:
    path = text.partition("?")[0]
    return unquote(path) if "%" in path else path
