"""HTTP/2 connections. The h2 library parses frames, and this module assembles requests from the frames, within limits.

A client uses a single connection for all its requests, so that a request does not wait for another request or a
handshake.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from accelkit.serving.http2.frame_meter import FloodError, FrameMeter
from accelkit.serving.http2.frames import MOST_STREAMS, make_frames
from accelkit.serving.http2.stream import Stream
from accelkit.serving.messages import ANSWER_SECONDS, Answer, Reply
from accelkit.serving.tls import list_names

# The number of bytes of a response that are passed to the transport at once.
_WRITE_BYTES: Final = 128 * 1024
# After GOAWAY, the client closes its connection. An immediate abort could lose the last response.
_CLOSE_SECONDS: Final = 0.5
# The fields of a GOAWAY frame: length, type and flags; stream; last stream with a response; error code.
_GO_AWAY: Final = struct.Struct(">5sIII")


class Http2Connection(asyncio.Protocol):
    """One HTTP/2 connection.

    Args:
        answer: a function that returns the response to a request.
        on_lost: a function that is called when the connection is closed.
        on_unsent: a function that is called with the size of the unsent responses.
        idle_seconds: the time after which a connection without a request is closed.

    Attributes:
        names: the names in the verified client certificate.
        first_request: a future that is done when the first request has arrived or the connection is closed.
        transport: the transport of the connection; None before the connection is established and after it is closed.
    """

    def __init__(
        self,
        answer: Answer,
        on_lost: Callable[[Http2Connection], None],
        on_unsent: Callable[[Http2Connection, int], None],
        idle_seconds: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._answer, self._on_lost, self._on_unsent = answer, on_lost, on_unsent
        self._idle_seconds, self._idle_since = idle_seconds, self._loop.time()
        self.names: frozenset[str] = frozenset()
        self.first_request: asyncio.Future[None] = self._loop.create_future()
        self.transport: asyncio.Transport | None = None
        self._http = make_frames()
        self._meter = FrameMeter()
        # Received data, and the position of the first byte that is not processed yet.
        self._received, self._place = b"", 0
        self._writing_paused = False
        self._unsent = 0
        # Streams whose response is being computed or sent, including streams that the client has reset.
        self._streams: dict[int, tuple[Stream, asyncio.Task[None]]] = {}
        # The last stream that receives a response; set when GOAWAY is sent.
        self._last: int | None = None
        self._broken = False
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the names in the certificate of the client, and send the settings."""
        self.transport = cast("asyncio.Transport", transport)
        self.names = list_names(transport.get_extra_info("peercert"))
        self._flush()
        self._watch_idleness()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        if self._broken:
            return
        waiting = bool(self._received)
        self._received = self._received[self._place :] + data if waiting else data
        self._place = 0
        if not waiting:
            self._take_turn()

    def _take_turn(self) -> None:
        """Process received data up to the end of a request's headers, and then yield to other connections."""
        if self._broken or self.transport is None:
            return
        place = self._place
        try:
            self._place = self._meter.take(self._received, place)
            for event in self._http.receive_data(self._received[place : self._place]):
                self._take(event)
        except FloodError as exc:
            self._http.close_connection(exc.error_code)
            self._break()
        except ProtocolError:
            self._break()
        else:
            self._flush()
        if self._place < len(self._received):
            self._loop.call_soon(self._take_turn)
        else:
            self._received = b""
        self._choose_reading()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its responses."""
        self._writing_paused = True
        self._choose_reading()
        self._schedule("unread", ANSWER_SECONDS, self.abort)

    def resume_writing(self) -> None:
        """Resume reading, and send the unsent parts of responses."""
        self._writing_paused = False
        if (timer := self._timers.pop("unread", None)) is not None:
            timer.cancel()
        if not self._broken:
            self._send_rests()
            self._flush()
        self._choose_reading()

    def _choose_reading(self) -> None:
        """Read from the client, unless received data is not processed yet or the client does not read its responses."""
        if self.transport is None or self.transport.is_closing():
            return
        if self._received or self._writing_paused:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Record that the connection is closed."""
        del exc
        self.transport = None
        self._received = b""
        if not self.first_request.done():
            self.first_request.set_result(None)
        for timer in self._timers.values():
            timer.cancel()
        for stream, _ in self._streams.values():
            stream.lose()
        self._on_lost(self)

    def limit(self, seconds: float) -> None:
        """Limit the remaining lifetime of the connection, in seconds. It is closed even during requests."""
        self._schedule("limit", seconds, self.abort)

    def end(self) -> None:
        """Send GOAWAY, and close the connection after the responses to current requests.

        The client sends later requests over another connection.
        """
        if self._last is not None or self._broken or self.transport is None:
            return
        self._last = self._http.highest_inbound_stream_id
        # The library's own GOAWAY would not allow further responses.
        self._flush()
        self.transport.write(_GO_AWAY.pack(b"\0\0\x08\x07\0", 0, self._last, ErrorCodes.NO_ERROR))
        self._close_if_done()

    def abort(self) -> None:
        """Close the connection immediately, even during requests."""
        if self.transport is not None:
            self.transport.abort()

    def _take(self, event: Event) -> None:
        # The cases are ordered by frequency.
        match event:
            case DataReceived():
                self._take_data(event)
            case RequestReceived():
                self._begin(event)
            case StreamEnded():
                if (held := self._streams.get(event.stream_id)) is not None:
                    held[0].end()
            case WindowUpdated() | RemoteSettingsChanged():
                self._send_rests()
            case StreamReset():
                if (held := self._streams.get(event.stream_id)) is not None:
                    self._http.acknowledge_received_data(held[0].drop(), event.stream_id)
                    held[0].lose()
                    self._count_unsent()
            case ConnectionTerminated():
                # No more data can be sent.
                self._break()

    def _begin(self, event: RequestReceived) -> None:
        if self._last is not None:
            # The request was sent before the client received GOAWAY. The client repeats it over another connection.
            return
        if not self.first_request.done():
            self.first_request.set_result(None)
        number = event.stream_id
        if len(self._streams) >= MOST_STREAMS:
            # The responses for reset streams are still being computed.
            self._http.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        stream = Stream(number, event.headers, self.names, self._open_window, self.limit)
        task = self._loop.create_task(self._respond(stream))
        self._streams[number] = stream, task

    def _take_data(self, event: DataReceived) -> None:
        held, counted = self._streams.get(event.stream_id), event.flow_controlled_length
        if held is None or held[0].lost:
            self._http.acknowledge_received_data(counted, event.stream_id)
        else:
            held[0].feed(event.data, counted)

    def _open_window(self, stream: Stream, counted: int) -> None:
        if not self._broken and self.transport is not None:
            self._http.acknowledge_received_data(counted, stream.number)
            self._flush()

    async def _respond(self, stream: Stream) -> None:
        reply = await self._answer(stream)
        if stream.lost or self._broken or self.transport is None:
            self._discard(stream)
            return
        self._send(stream, reply)
        if reply.close:
            self.end()

    def _send(self, stream: Stream, reply: Reply) -> None:
        headers = [(b":status", b"%d" % reply.status)]
        headers += [(name.lower().encode(), value.encode()) for name, value in reply.list_headers()]
        body = b"" if stream.method == "HEAD" else reply.body
        self._http.send_headers(stream.number, headers, end_stream=not body)
        stream.rest = memoryview(body)
        self._meter.earn(len(body))
        self._send_rest(stream)
        if not body:
            self._finish(stream)
        elif stream.rest:
            stream.timer = self._loop.call_later(ANSWER_SECONDS, self._give_up, stream)
            self._count_unsent()
        self._flush()

    def _send_rests(self) -> None:
        for stream, _ in list(self._streams.values()):
            self._send_rest(stream)
        self._count_unsent()

    def _count_unsent(self) -> None:
        """Report the size of unsent responses if it has changed."""
        unsent = sum(len(stream.rest) for stream, _ in self._streams.values())
        if unsent != self._unsent:
            self._unsent = unsent
            self._on_unsent(self, unsent)

    def _send_rest(self, stream: Stream) -> None:
        """Send as much of a response as the client's flow-control windows and the transport allow."""
        if not stream.rest:
            return
        unwritten = 0
        while stream.rest:
            if unwritten >= _WRITE_BYTES:
                self._flush()
                unwritten = 0
            if self._writing_paused:
                return
            size = min(
                len(stream.rest),
                self._http.local_flow_control_window(stream.number),
                self._http.max_outbound_frame_size,
                _WRITE_BYTES,
            )
            if size <= 0:
                return
            piece, stream.rest = bytes(stream.rest[:size]), stream.rest[size:]
            self._http.send_data(stream.number, piece, end_stream=not stream.rest)
            unwritten += size
        self._finish(stream)

    def _finish(self, stream: Stream) -> None:
        if not stream.complete:
            # The response was complete before the body arrived, so the rest of the body is not read.
            self._http.reset_stream(stream.number, ErrorCodes.NO_ERROR)
            self._http.acknowledge_received_data(stream.drop(), stream.number)
        self._discard(stream)

    def _give_up(self, stream: Stream) -> None:
        stream.lose()
        self._http.reset_stream(stream.number, ErrorCodes.CANCEL)
        self._discard(stream)
        self._count_unsent()
        self._flush()

    def _discard(self, stream: Stream) -> None:
        stream.stop_timer()
        self._streams.pop(stream.number, None)
        self._idle_since = self._loop.time()
        if self._last is not None:
            self._loop.call_soon(self._close_if_done)

    def _flush(self) -> None:
        if self.transport is not None and (data := self._http.data_to_send()):
            self.transport.write(data)

    def _break(self) -> None:
        """Send the pending frames, which contain the reason, and then close the connection."""
        self._broken = True
        self._received = b""
        self._flush()
        if self.transport is not None:
            self.transport.close()
            self._schedule("closing", _CLOSE_SECONDS, self.abort)

    def _close_if_done(self) -> None:
        if not self._streams and self.transport is not None:
            self._schedule("closing", _CLOSE_SECONDS, self._close)

    def _close(self) -> None:
        if self.transport is not None:
            # This allows the client to read the written data before the connection is closed.
            self.transport.close()
            self._schedule("cut", ANSWER_SECONDS, self.abort)

    def _watch_idleness(self) -> None:
        left = self._idle_seconds - (0.0 if self._streams else self._loop.time() - self._idle_since)
        if left <= 0:
            self.end()
        else:
            self._schedule("idle", left, self._watch_idleness)

    def _schedule(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Schedule a call after a delay, and cancel any scheduled call with the same name."""
        if (timer := self._timers.get(name)) is not None:
            timer.cancel()
        self._timers[name] = self._loop.call_later(seconds, call)
