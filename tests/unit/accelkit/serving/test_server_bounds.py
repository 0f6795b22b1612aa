"""What strangers can send and hold, byte by byte on real sockets."""

import asyncio
import contextlib
import gc
import os
import socket

import pytest
from aiohttp import web
from http_service import hello
from ports import free_port
from support.handlers import Gate
from support.waiting import until

from accelkit.serving import connections as connections_module
from accelkit.serving import server as module
from accelkit.serving.http1 import Http1Connection
from accelkit.serving.server import BodyLimits, HeadServer, HttpServer, Reply
from accelkit.serving.tls import Listen

LIMIT = 8
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def running(make):
    stop, at = asyncio.Event(), Listen("127.0.0.1", free_port())
    server = make(at)
    task = asyncio.create_task(server.run(stop))
    try:
        yield server, at
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await task


def probes():
    return running(lambda at: HeadServer(at, hello, connections=LIMIT))


def verbs(handle=hello, limits=None):
    return running(lambda at: HttpServer(at, handle, limits=limits))


def post(length, body=b""):
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (length, body)


@contextlib.asynccontextmanager
async def opened(at, count=1, text=b""):
    """Connections that have sent `text`, and nothing more."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(at.host, at.port)
            stack.callback(writer.close)
            writer.write(text)
            found.append((reader, writer))
        yield found


async def answer(at, text):
    async with asyncio.timeout(60), opened(at, 1, text) as ((reader, _),):
        return await reader.read()


async def until_closed(reader):
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_probe_is_answered_when_connection_limit_is_exceeded(monkeypatch):
    # No held connection runs out of time meanwhile.
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 600)
    async with probes() as (_, at), opened(at, 5 * LIMIT, HEAD) as held:
        for _ in range(10):
            assert (await answer(at, HEAD + b"\r\n")).startswith(b"HTTP/1.1 200 ")
        # Those that came first have made room.
        for reader, _ in held[:LIMIT]:
            await until_closed(reader)


async def test_probe_is_answered_during_connection_flood():
    async with probes() as (_, at):

        async def attack():
            while True:
                async with opened(at, LIMIT, HEAD):
                    await asyncio.sleep(0)

        attacks = [asyncio.create_task(attack()) for _ in range(4)]
        await asyncio.sleep(0.1)
        for _ in range(20):
            assert (await answer(at, HEAD + b"\r\n")).endswith(b"hello")
        for each in attacks:
            each.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)


async def test_incomplete_head_times_out(monkeypatch):
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 0.2)
    for text in (b"", HEAD, b"GET"):
        async with probes() as (_, at), opened(at, 1, text) as ((reader, _),):
            await until_closed(reader)


async def test_head_sent_byte_by_byte_does_not_extend_timeout(monkeypatch):
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 0.3)
    async with probes() as (_, at), opened(at) as ((reader, writer),):
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "line",
    [
        b"GET /" + 5000 * b"x" + b" HTTP/1.1\r\nHost: x\r\n",
        HEAD + b"X: " + 5000 * b"x" + b"\r\n",
        HEAD + 40 * b"X: x\r\n",
    ],
)
async def test_oversized_head_is_refused(line):
    async with probes() as (_, at):
        assert (await answer(at, line + b"\r\n")).startswith(b"HTTP/1.0 400 ")


@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nA: ", HEAD + b"Content-Length: 900000000\r\n\r\n"])
async def test_endless_head_is_read_in_small_limited_amounts(monkeypatch, begun):
    read, take = [], web.RequestHandler.data_received
    monkeypatch.setattr(
        web.RequestHandler, "data_received", lambda self, data: read.append(len(data)) or take(self, data)
    )
    async with probes() as (_, at), opened(at, 1, begun) as ((reader, writer),):
        with contextlib.suppress(ConnectionError):
            for _ in range(32):
                writer.write(bytes(b"x" * 65536))
                await writer.drain()
            await until_closed(reader)
    assert 0 < sum(read) <= 4096 + (16 << 10)
    assert max(read) <= 16 << 10


async def test_unread_body_is_not_buffered():
    async with probes() as (_, at), opened(at, 1, HEAD + b"Content-Length: 900000000\r\n\r\n") as ((reader, writer),):
        sent, chunk = 0, os.urandom(65536)
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(2):
                while sent < 100 << 20 and not reader.at_eof():
                    writer.write(chunk)
                    await writer.drain()
                    sent += len(chunk)
        # What the kernel's buffers hold.
        assert sent < 20 << 20
        assert (await answer(at, HEAD + b"\r\n")).endswith(b"hello")


async def test_connection_is_closed_when_client_does_not_read_response(monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.2)

    asked = asyncio.Event()

    async def much(*_):
        asked.set()
        return Reply(200, bytes(64 << 20))

    one = running(lambda at: HeadServer(at, much, connections=1))
    async with one as (server, at), opened(at, 1, HEAD + b"\r\n"):
        async with asyncio.timeout(60):
            await asked.wait()
            # It may have ended already, where this machine was busy for so long.
            await until(lambda: not (server._connections._waiting or server._connections._served))


async def test_closed_connections_are_garbage_collected():
    async with probes() as (server, at):
        for _ in range(30):
            await answer(at, HEAD + b"\r\n")
        await until(lambda: not (server._connections._waiting or server._connections._served))
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, Http1Connection)]


@pytest.mark.parametrize("chunked", [False, True])
async def test_total_size_of_pending_bodies_is_limited(monkeypatch, chunked):
    monkeypatch.setattr(module, "MAX_BODIES_BYTES", 1000)
    gate = Gate()

    def request(size):
        if chunked:
            return b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
                size,
                size * b"x",
            )
        return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (size, size * b"x")

    async with verbs(gate.handle) as (server, at), opened(at, 1, request(600)) as ((reader, _),):
        await until(lambda: server._held_bytes == 600)
        refused = await answer(at, request(401))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in refused
        assert b"Connection: close" in refused
        gate.open.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await until(lambda: not server._held_bytes)


async def test_announced_but_unsent_bodies_reserve_no_memory():
    limits = BodyLimits(each_bytes=1000, together_bytes=1500, seconds=60)
    async with verbs(limits=limits) as (server, at), opened(at, 20, post(1000)):
        await until(lambda: len(server._reading) >= 20)
        assert (await answer(at, post(1000, bytes(1000)) + HEAD + b"Connection: close\r\n\r\n")).count(b" 200 ") == 2


async def test_oldest_incomplete_body_is_dropped_at_total_limit():
    limits = BodyLimits(each_bytes=1000, together_bytes=1500, seconds=60)
    async with (
        verbs(limits=limits) as (server, at),
        opened(at, 1, post(1000, bytes(700))) as ((oldest, _),),
        opened(at, 1, post(1000, bytes(700))) as ((reader, writer),),
    ):
        async with asyncio.timeout(60):
            await until(lambda: server._held_bytes >= 1400)
            writer.write(bytes(300))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert (await oldest.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408 ")
            await until(lambda: not server._held_bytes)


async def test_body_over_server_limit_is_refused_by_its_head():
    async with verbs(limits=BodyLimits(1000, 1500, 60)) as (_, at):
        refused = await answer(at, post(1001))
    assert refused.startswith(b"HTTP/1.1 413 ")
    assert refused.endswith(b'{"error":"the body is larger than 1000 bytes"}')


async def test_handler_exception_returns_500_and_is_logged(caplog):
    async def fail(*_):
        raise ValueError("no")

    async with verbs(fail) as (_, at):
        refused = await answer(at, HEAD + b"\r\n")
    assert refused.startswith(b"HTTP/1.1 500 ")
    assert [record.message for record in caplog.records] == ["cannot answer a request to /healthz because of a bug"]


async def test_response_hides_implementation_and_pipelined_request_is_not_served():
    async with verbs() as (_, at), probes() as (_, other):
        for each in (at, other):
            for text in (HEAD + b"Connection: close\r\n\r\n", b"nonsense\r\n\r\n"):
                assert b"ython" not in await answer(each, text)
    async with probes() as (_, at):
        both = await answer(at, 2 * (HEAD + b"\r\n"))
    assert both.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in both


async def test_server_continues_after_running_out_of_file_descriptors(caplog, monkeypatch):
    monkeypatch.setattr(connections_module, "_PAUSE_SECONDS", 0.05)

    class Exhausted(socket.socket):
        failures = 2

        def accept(self):
            if self.failures:
                self.failures -= 1
                raise OSError(24, "Too many open files")
            return super().accept()

    async with probes() as (server, at):
        assert (await answer(at, HEAD + b"\r\n")).endswith(b"hello")
        server._connections.refuse(server._socket)
        with Exhausted(fileno=os.dup(server._socket.fileno())) as listening:
            server._connections.accept(listening, None)
            assert (await answer(at, HEAD + b"\r\n")).endswith(b"hello")
            server._connections.refuse(listening)
    assert [record.message for record in caplog.records] == [
        "cannot accept a connection: [Errno 24] Too many open files"
    ]


async def test_request_received_during_shutdown_is_answered():
    stop, at = asyncio.Event(), Listen("127.0.0.1", free_port())

    async def end(*_):
        stop.set()
        await asyncio.sleep(0.05)
        return Reply(200, b"hello")

    serving = asyncio.create_task(HttpServer(at, end).run(stop))
    await asyncio.sleep(0)
    assert (await answer(at, HEAD + b"\r\n")).endswith(b"hello")
    async with asyncio.timeout(60):
        await serving


async def test_body_in_one_byte_chunks_does_not_delay_other_requests():
    answered = []

    async def handle(_method, path, _body):
        answered.append(path)
        return Reply(200, b"")

    head = b"POST /chunks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = head + 30_000 * b"1\r\na\r\n" + b"0\r\n\r\n"
    async with verbs(handle) as (server, at), opened(at, 8) as attackers, opened(at, 1) as ((_, client),):
        await until(lambda: len(server._connections._waiting) == 9)
        for _, writer in attackers:
            writer.write(chunks)
        await until(lambda: server._reading)
        client.write(b"GET /client HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: len(answered) == 9)
    assert answered[0] == "/client"


async def test_total_size_of_unread_responses_is_limited():
    body = bytes(32 << 20)

    async def handle(*_request):
        return Reply(200, body)

    limits = BodyLimits(each_bytes=1000, together_bytes=70 << 20, seconds=60)
    request = HEAD + b"\r\n"
    async with verbs(handle, limits) as (server, at), opened(at, 2, request):
        unsent = server._connections._unsent
        await until(lambda: len(unsent) == 2)
        oldest, newer = unsent
        async with opened(at, 1, request):
            await until(lambda: oldest.transport is None)
            await until(lambda: len(unsent) == 2)
            assert newer in unsent
