"""What a client of HTTP/2 can send to cost us more than itself, byte by byte on real sockets."""

import struct

import hpack
import pytest
from h2.errors import ErrorCodes
from http2_client import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    speaking,
)
from http_service import hello, serving
from support.handlers import Gate
from support.waiting import until

from accelkit.serving import connections as connections_module
from accelkit.serving import server as server_module
from accelkit.serving.http2 import connection as module
from accelkit.serving.http2.frame_meter import FloodError, FrameMeter
from accelkit.serving.http2.stream import Stream
from accelkit.serving.server import BodyLimits, Reply

CALM, PROTOCOL = ErrorCodes.ENHANCE_YOUR_CALM, ErrorCodes.PROTOCOL_ERROR
HEAD = hpack.Encoder().encode([(":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", "/")])
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# As many of each as no client of ours sends in an hour.
MANY = 5000


def streams(count):
    return range(1, 2 * count, 2)


FLOODS = {
    "pings": [frame(PING, b"01234567")],
    "answers to pings": [frame(PING, b"01234567", flags=ACK)],
    "settings": [frame(SETTINGS, struct.pack(">HI", 3, 100))],
    "no settings": [frame(SETTINGS)],
    "windows": [frame(WINDOW_UPDATE, struct.pack(">I", 1))],
    "frames of no kind": [frame(0x77, b"x")],
    "priorities": [frame(PRIORITY, struct.pack(">IB", 0, 7), 99)],
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_frame_flood_closes_only_its_own_connection(pki, flood):
    async with (
        serving(hello, tls=pki.files) as (_, at),
        speaking(at, pki.client()) as attacker,
        speaking(at, pki.client()) as client,
    ):
        await attacker.ask("GET", "/")
        await attacker.raw(*FLOODS[flood] * MANY)
        assert (await attacker.until_closed())[0] == CALM
        assert (await client.ask("GET", "/")).status == 200


async def test_rapid_reset_closes_connection(pki):
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (server, at), speaking(at, pki.client()) as attacker:
        await attacker.raw(
            *(
                frame(HEADERS, HEAD, number, END_HEADERS | END_STREAM) + frame(RST_STREAM, struct.pack(">I", 8), number)
                for number in streams(MANY)
            )
        )
        assert (await attacker.until_closed())[0] == CALM
        # Each is worked at to its end, so no more are begun than there may be at once.
        assert gate.asked <= module.MOST_STREAMS
        gate.open.set()
        await until(lambda: not server._reading)


async def test_cancelled_requests_count_toward_stream_limit_until_completion(pki):
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        for _ in range(module.MOST_STREAMS):
            number = await client.send("GET", "/")
            client.http.reset_stream(number)
        await client.flush()
        refused = await client.ask("GET", "/")
        assert refused.reset == ErrorCodes.REFUSED_STREAM
        assert gate.asked <= module.MOST_STREAMS
        gate.open.set()
        while (await client.ask("GET", "/")).status != 200:
            pass


async def test_exceeding_stream_limit_closes_connection(pki):
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (_, at), speaking(at, pki.client()) as attacker:
        await attacker.raw(
            *(frame(HEADERS, HEAD, each, END_HEADERS | END_STREAM) for each in streams(module.MOST_STREAMS + 1))
        )
        assert (await attacker.until_closed())[0] in {PROTOCOL, ErrorCodes.REFUSED_STREAM}
        gate.open.set()


async def test_endless_continuation_frames_close_connection(pki):
    head, more = frame(HEADERS, HEAD, 1), frame(CONTINUATION, b"", 1)
    large = frame(CONTINUATION, 16_000 * b"x", 1)
    async with serving(hello, tls=pki.files) as (_, at):
        for frames in ([head, *[more] * MANY], [head, *[large] * 3]):
            async with speaking(at, pki.client()) as attacker:
                await attacker.raw(*frames)
                assert (await attacker.until_closed())[0] in {CALM, PROTOCOL}


async def test_header_compression_bomb_closes_connection(pki):
    # One header of 4,000 bytes is remembered, then named by one byte each time.
    encoder = hpack.Encoder()
    bomb = encoder.encode([("x", 4000 * "y")]) + 200 * encoder.encode([("x", 4000 * "y")])
    assert len(bomb) < 5000
    async with serving(hello, tls=pki.files) as (_, at), speaking(at, pki.client()) as attacker:
        await attacker.raw(frame(HEADERS, HEAD + bomb, 1, END_HEADERS | END_STREAM))
        assert (await attacker.until_closed())[0] == CALM


async def test_body_in_one_byte_frames_closes_connection(pki):
    async with serving(hello, tls=pki.files) as (_, at), speaking(at, pki.client()) as attacker:
        await attacker.raw(frame(HEADERS, HEAD, 1, END_HEADERS), *[frame(DATA, b"x", 1)] * MANY)
        assert (await attacker.until_closed())[0] == CALM


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"],
        [frame(DATA, b"x", 1)],
        [frame(DATA, b"x", 0)],
        [frame(SETTINGS, b"12345")],
        [frame(SETTINGS, struct.pack(">HI", 4, 2**32 - 1))],
        [frame(PING, b"1234")],
        [frame(WINDOW_UPDATE, struct.pack(">I", 0))],
        [frame(WINDOW_UPDATE, struct.pack(">I", 2**31 - 1))] * 2,
        [frame(CONTINUATION, HEAD, 1, END_HEADERS)],
        [frame(HEADERS, HEAD, 2, END_HEADERS)],
        [frame(HEADERS, HEAD, 5, END_HEADERS | END_STREAM), frame(HEADERS, HEAD, 3, END_HEADERS | END_STREAM)],
        [frame(HEADERS, b"\xff\xff\xff\xff\xff", 1, END_HEADERS)],
        [frame(HEADERS, hpack.Encoder().encode([("a", "b")]), 1, END_HEADERS | END_STREAM)],
        [frame(PUSH_PROMISE, struct.pack(">I", 2) + HEAD, 1, END_HEADERS)],
        [frame(0x99, 5000 * b"x")],
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ],
)
async def test_invalid_http2_closes_only_its_own_connection(pki, caplog, frames):
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (_, at), speaking(at, pki.client()) as attacker:
        await attacker.raw(*frames)
        goodbye = await attacker.until_closed()
        gate.open.set()
        assert goodbye is None or goodbye[0]
        async with speaking(at, pki.client()) as client:
            assert (await client.ask("GET", "/")).status == 200
    assert caplog.records == []


async def test_goaway_from_client_closes_connection(pki):
    async with serving(hello, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        await client.ask("GET", "/")
        await client.raw(frame(GOAWAY, bytes(8)))
        await client.until_closed()
        await until(lambda: not server._connections._served)


async def test_connection_without_complete_request_times_out(pki, monkeypatch):
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 0.5)
    async with serving(hello, tls=pki.files) as (server, at):
        for text in (b"", frame(PING, b"01234567"), frame(HEADERS, HEAD, 1), frame(HEADERS, HEAD, 1)[:12]):
            async with speaking(at, pki.client()) as client:
                await client.raw(text)
                await client.until_closed()
        await until(lambda: not server._connections._waiting)


async def test_longest_waiting_connection_is_closed_at_connection_limit(pki, monkeypatch):
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 60)
    monkeypatch.setattr(server_module, "_CONNECTIONS", 2)
    async with (
        serving(hello, tls=pki.files) as (_, at),
        speaking(at, pki.client()) as first,
        speaking(at, pki.client()) as second,
        speaking(at, pki.client()) as third,
    ):
        await first.until_closed()
        assert [(await each.ask("GET", "/")).status for each in (second, third)] == [200, 200]


async def test_connection_is_closed_when_client_does_not_read(pki, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    # The last of what is written may wait where nobody tells us of it, until the connection counts as idle.
    monkeypatch.setattr(server_module, "_IDLE_SECONDS", 0.6)

    async def much(*_):
        return Reply(200, bytes(8 << 20))

    async with serving(much, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        client.http.update_settings({4: 2**31 - 1})
        client.http.increment_flow_control_window(2**31 - 1 - 65535)
        client._reading.cancel()
        for _ in range(4):
            await client.send("GET", "/")
        await until(lambda: not server._connections._served and not server._connections._waiting)


def test_frame_meter_counts_split_frames_and_recovers_over_time():
    now = [0.0]
    meter = FrameMeter(lambda: now[0])
    meter.take(PREFACE)
    ping = frame(PING, b"01234567")
    for _ in range(2000):
        meter.take(ping)
    now[0] += 5
    meter.take(5 * ping)
    meter.earn(4096)
    meter.take(3 * ping)
    with pytest.raises(FloodError):
        meter.take(ping)
    text = PREFACE + frame(HEADERS, HEAD, 1, END_HEADERS) + frame(DATA, 3000 * b"x", 1) + 2000 * frame(PING, bytes(8))
    for size in (1, 7, 8, 9, 10, 1000):
        meter, pauses = FrameMeter(lambda: 0.0), []
        for begin in range(0, len(text), size):
            piece, place = text[begin : begin + size], 0
            while (place := meter.take(piece, place)) < len(piece):
                pauses.append(begin + place)
        # After the head, unless the piece ends there.
        assert pauses in ([], [len(PREFACE) + 9 + len(HEAD)])
        with pytest.raises(FloodError):
            meter.take(frame(PING, bytes(8)))


@pytest.mark.parametrize(
    ("value", "length"), [("5", 5), ("-5", None), ("+5", None), ("5_0", None), ("²", None), ("", None)]
)
def test_content_length_is_a_number_or_none(value, length):
    stream = Stream(1, [(b"content-length", value.encode())], frozenset(), lambda *_: None, lambda _: None)
    assert stream.content_length == length


def test_undecodable_path_is_replaced():
    stream = Stream(1, [(b":path", b"/\xff%ff?x")], frozenset(), lambda *_: None, lambda _: None)
    assert stream.path == "/\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert stream.headers.get("X-Nothing") is None


async def test_total_size_of_unread_responses_is_limited(pki):
    async def handle(_method, path, _body):
        return Reply(200, bytes(600 if path == "/large" else 1))

    limits = BodyLimits(each_bytes=1000, together_bytes=1500, seconds=60)
    async with (
        serving(handle, tls=pki.files, limits=limits) as (server, at),
        speaking(at, pki.client()) as first,
        speaking(at, pki.client()) as second,
        speaking(at, pki.client()) as reader,
    ):
        for client in (first, second):
            client.http.update_settings({4: 0})
            await client.send("GET", "/large")
        await until(lambda: sum(server._connections._unsent.values()) == 1200)
        assert len((await reader.ask("GET", "/large")).body) == 600
        await second.send("GET", "/large")
        # The responses of the first connection have waited longest.
        await first.until_closed()
        assert not second.closed
        await until(lambda: sum(server._connections._unsent.values()) == 1200)
        second.http.update_settings({4: 65535})
        await second.flush()
        await until(lambda: not server._connections._unsent)


async def test_requests_of_connections_are_served_in_turn(pki):
    order = []

    async def handle(_method, path, _body):
        order.append(path)
        return Reply(200, b"")

    async with (
        serving(handle, tls=pki.files) as (_, at),
        speaking(at, pki.client()) as attacker,
        speaking(at, pki.client()) as client,
    ):
        await attacker.ask("GET", "/")
        await client.ask("GET", "/")
        first = module.MOST_STREAMS // 2
        await attacker.raw(*(frame(HEADERS, HEAD, each, END_HEADERS | END_STREAM) for each in [*streams(first)][1:]))
        await client.ask("GET", "/client")
    assert order.index("/client") < first
