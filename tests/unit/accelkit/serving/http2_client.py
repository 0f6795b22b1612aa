"""A client of HTTP/2 whose frames are in our hands."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import NoSuchStreamError, ProtocolError, StreamClosedError
from http_service import PATIENCE_SECONDS

from accelkit.serving.tls import Listen

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
CHUNK = 16 * 1024


def frame(kind: int, body: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


@dataclass
class Got:
    """What came on a stream."""

    status: int = 0
    headers: dict[str, str] | None = None
    body: bytes = b""
    ended: bool = False
    reset: int | None = None


class Client:
    """One connection of HTTP/2.

    Attributes:
        closed: whether the server has closed it.
        goodbye: the code of its GOAWAY and the last stream that it answers, None before it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, fetch: bool = True) -> None:
        self._reader, self.writer = reader, writer
        self.http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.streams: dict[int, Got] = {}
        self.closed = False
        self.goodbye: tuple[int, int] | None = None
        self.acknowledged = False
        # Whether we let the server send on as bodies come.
        self.fetch = fetch
        self._cut = b""
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def start(self) -> None:
        self.http.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        self.writer.write(self.http.data_to_send())
        await self.writer.drain()

    async def send(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"", end: bool = True) -> int:
        """Send a request, as fast as the server lets us; return the number of its stream."""
        number = self.http.get_next_available_stream_id()
        self.streams[number] = Got()
        pseudo = [(":method", method), (":scheme", "https"), (":authority", "x"), (":path", path)]
        self.http.send_headers(number, [*pseudo, *headers], end_stream=end and not body)
        await self.flush()
        if body:
            await self.send_body(number, body, end=end)
        return number

    async def send_body(self, number: int, body: bytes, *, end: bool = True) -> None:
        rest = memoryview(body)
        while rest:
            size = min(len(rest), self.http.local_flow_control_window(number), self.http.max_outbound_frame_size)
            if not size:
                await self.news()
                continue
            piece, rest = bytes(rest[:size]), rest[size:]
            self.http.send_data(number, piece, end_stream=end and not rest)
            await self.flush()

    async def ask(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> Got:
        return await self.answer(await self.send(method, path, *headers, body=body))

    async def answer(self, number: int) -> Got:
        """Wait until an answer is there."""
        got = self.streams[number]
        while not got.ended and got.reset is None and not self.closed:
            await self.news()
        return got

    async def raw(self, *frames: bytes) -> None:
        """Send what no library would; nobody minds if the server has hung up."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.writer.write(b"".join(frames))
            await self.writer.drain()

    async def news(self) -> None:
        self._news.clear()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._news.wait()

    async def until_closed(self) -> tuple[int, int] | None:
        """Wait until the server has closed the connection; return its goodbye."""
        while not self.closed:
            await self.news()
        return self.goodbye

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await self._reader.read(1 << 16):
                # The server may reset streams that were sent raw, which the library does not know.
                with contextlib.suppress(ProtocolError):
                    for event in self.http.receive_data(self._take_goodbye(data)):
                        self._take(event)
                with contextlib.suppress(ConnectionError):
                    await self.flush()
                self._news.set()
        self.closed = True
        self._news.set()

    def _take_goodbye(self, data: bytes) -> bytes:
        """Return all whole frames but GOAWAY, after which the library would take no more answers."""
        self._cut += data
        frames = []
        while len(self._cut) >= 9 and len(self._cut) >= (size := 9 + int.from_bytes(self._cut[:3])):
            each, self._cut = self._cut[:size], self._cut[size:]
            if each[3] == GOAWAY:
                last, code = struct.unpack(">II", each[9:17])
                self.goodbye = code, last
            else:
                frames.append(each)
        return b"".join(frames)

    def _take(self, event: object) -> None:
        match event:
            case ResponseReceived():
                got = self.streams[event.stream_id]
                got.headers = {str(name): str(value) for name, value in event.headers}
                got.status = int(got.headers[":status"])
            case DataReceived():
                self.streams[event.stream_id].body += event.data
                if self.fetch:
                    with contextlib.suppress(StreamClosedError, NoSuchStreamError):
                        self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.streams[event.stream_id].ended = True
            case StreamReset():
                self.streams[event.stream_id].reset = int(event.error_code)
            case SettingsAcknowledged():
                self.acknowledged = True

    async def close(self) -> None:
        self._reading.cancel()
        self.writer.close()
        await asyncio.gather(self._reading, self.writer.wait_closed(), return_exceptions=True)


@contextlib.asynccontextmanager
async def speaking(
    at: Listen, tls: ssl.SSLContext, protocols: Sequence[str] = ("h2", "http/1.1"), *, fetch: bool = True
) -> AsyncIterator[Client]:
    """A client that has begun to speak HTTP/2."""
    tls.set_alpn_protocols(list(protocols))
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    client = Client(reader, writer, fetch=fetch)
    try:
        await client.start()
        yield client
    finally:
        await client.close()
