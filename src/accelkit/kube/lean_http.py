"""A client of HTTP/1.1 for one server and small requests that are sent by the thousand.

It can do what kube-apiserver needs and nothing else: no redirects, cookies, proxies or compressed bodies. So a request
takes a third of the CPU that it takes by a library for everything.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

# kube-apiserver closes idle connections after 90 s; a request that meets the end of one gets no answer.
_IDLE_SECONDS: Final = 15.0
_HEAD_BYTES: Final = 64 * 1024
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,12})[ \t]*\r\n")
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n")
_CLOSES: Final = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n")
_FIRST_FINAL, _LAST_STATUS = 200, 599
_WITHOUT_BODY: Final = frozenset({204, 304})
Answer = tuple[int, bytes]


class BrokenAnswerError(ConnectionError):
    """The server answers otherwise than HTTP/1.1 says, or in a form that nobody expects of it."""


class LeanClient:
    """A pool of connections to one server.

    Args:
        server: its URL, http or https.
        tls: for https.
        server_name: that its certificate has to have, where it is not the host's.
        headers: of each request.
        seconds: the deadline of each request, connecting included.
        connections: how many requests of this client may be under way at once.
    """

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        headers: Sequence[tuple[str, str]],
        *,
        seconds: float,
        connections: int,
    ) -> None:
        at = urlsplit(server)
        self._host, self._port = at.hostname or "", at.port or (443 if tls else 80)
        self._tls, self._server_name = tls, (server_name or at.hostname) if tls else None
        self._prefix = at.path
        self._headers = _write_headers([("Host", at.netloc.rpartition("@")[2]), *headers])
        self._seconds = seconds
        self._turns = asyncio.Semaphore(connections)
        # The one used last comes last.
        self._idle: list[_Exchange] = []
        # Closes those that are idle for too long: only the last ones are used again, the others would stay open.
        self._closing: asyncio.TimerHandle | None = None

    async def post(self, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one request; return status and body of its answer.

        Args:
            target: path and query.
            body: of the request.
            headers: beside those of each request.

        Raises:
            OSError: there is no answer, or no right one.
            TimeoutError: not in time.
        """
        head = f"POST {_check(self._prefix + target)} HTTP/1.1\r\n{self._headers}{_write_headers(headers.items())}"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        async with asyncio.timeout(self._seconds), self._turns:
            exchange = self._take() or await self._connect()
            try:
                answer = await exchange.ask(request)
            except BaseException:
                # What is under way on it would be taken for the next one's answer.
                exchange.abort()
                raise
        if exchange.reusable:
            self._keep(exchange)
        else:
            exchange.abort()
        return answer

    def close(self) -> None:
        """Close what is open."""
        if self._closing is not None:
            self._closing.cancel()
        for each in self._idle:
            each.abort()
        self._idle.clear()

    def _keep(self, exchange: _Exchange) -> None:
        loop = asyncio.get_running_loop()
        exchange.idle_since = loop.time()
        self._idle.append(exchange)
        if self._closing is None:
            self._closing = loop.call_later(_IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        fresh = loop.time() - _IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= fresh:
            self._idle.pop(0).abort()
        self._closing = loop.call_at(self._idle[0].idle_since + _IDLE_SECONDS, self._close_idle) if self._idle else None

    def _take(self) -> _Exchange | None:
        fresh = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            found = self._idle.pop()
            if found.reusable and found.idle_since > fresh:
                return found
            found.abort()
        return None

    async def _connect(self) -> _Exchange:
        _, exchange = await asyncio.get_running_loop().create_connection(
            _Exchange, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
        )
        return exchange


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        # Whether another request may follow.
        self.reusable = True
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._read = bytearray()
        # Where the body begins, how long it is (None where it comes in chunks), and its status.
        self._head: tuple[int, int | None, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes) -> Answer:
        if self._transport is None:
            raise ConnectionResetError("the connection ended")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def abort(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            # Nobody asked.
            self.abort()
            return
        self._read += data
        try:
            answer = self._take_answer()
        except BrokenAnswerError as exc:
            self._waiting.set_exception(exc)
            self.abort()
            return
        if answer is not None:
            self._waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable, self._transport = False, None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("the connection ended before its answer"))

    def _take_answer(self) -> Answer | None:
        while self._head is None:
            if (end := self._read.find(b"\r\n\r\n")) < 0:
                if len(self._read) > _HEAD_BYTES:
                    raise BrokenAnswerError("the head of an answer has no end")
                return None
            self._head = self._read_head(end + 4)
        start, length, status = self._head
        if length is None:
            if (found := _join_chunks(self._read, start)) is None:
                self._limit(start)
                return None
            body, end = found
        else:
            if len(self._read) < start + length:
                return None
            end = start + length
            body = bytes(self._read[start:end])
        if len(self._read) > end:
            self.reusable = False
        self._read.clear()
        self._head = None
        return status, body

    def _read_head(self, end: int) -> tuple[int, int | None, int] | None:
        head = bytes(self._read[: end - 2]).lower()
        line = head.partition(b"\r\n")[0]
        if not re.match(rb"http/1\.[01] [1-5][0-9]{2}(?: |$)", line):
            raise BrokenAnswerError(f"{line[:100]!r} is no answer of HTTP/1.1")
        status = int(line[9:12])
        if status < _FIRST_FINAL:
            del self._read[:end]
            return None
        if _CLOSES.search(head) or line.startswith(b"http/1.0"):
            self.reusable = False
        if status in _WITHOUT_BODY:
            return end, 0, status
        if _CHUNKED.search(head):
            return end, None, status
        if (length := _LENGTH.search(head)) is None:
            raise BrokenAnswerError("an answer does not say how long it is")
        if int(length[1]) > _ANSWER_BYTES:
            raise BrokenAnswerError(f"an answer has more than {_ANSWER_BYTES} bytes")
        return end, int(length[1]), status

    def _limit(self, start: int) -> None:
        if len(self._read) - start > _ANSWER_BYTES:
            raise BrokenAnswerError(f"an answer has more than {_ANSWER_BYTES} bytes")


def _join_chunks(data: bytearray, start: int) -> tuple[bytes, int] | None:
    """Return a body that came in chunks and where it ends; None where it is not there yet."""
    pieces: list[bytes] = []
    place = start
    while (end := data.find(b"\r\n", place)) >= 0:
        text = bytes(data[place:end]).partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", text):
            raise BrokenAnswerError(f"{text[:20]!r} is no length of a chunk")
        size = int(text, 16)
        if not size:
            # Trailers, if there are any, up to an empty line.
            over = data.find(b"\r\n\r\n", end)
            return None if over < 0 else (b"".join(pieces), over + 4)
        place = end + 2
        if len(data) < place + size + 2:
            return None
        if data[place + size : place + size + 2] != b"\r\n":
            raise BrokenAnswerError("a chunk is longer than it says")
        pieces.append(bytes(data[place : place + size]))
        place += size + 2
    return None


def _write_headers(headers: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name}: {_check(value)}\r\n" for name, value in headers)


def _check(text: str) -> str:
    if not text.isprintable():
        raise BrokenAnswerError(f"{text[:100]!r} cannot stand in the head of a request")
    return text
