"""The gate breaks what it is told to break, and nothing afterwards."""

import asyncio
import contextlib
import json

import pytest
from faults.gate import Gate
from ports import free_port
from support.waiting import until

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECONDS = 60


class Server:
    """Answers each request at once, and keeps the first lines."""

    def __init__(self):
        self.lines = []
        self.port = free_port()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.lines.append(data.partition(b"\r\n")[0].decode())
                writer.write(ANSWER)
                await writer.drain()
        writer.transport.abort()


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, line):
        """Send a request; return what comes back, empty where the connection is cut."""
        self.writer.write(f"{line} HTTP/1.1\r\n\r\n".encode())
        try:
            return await asyncio.wait_for(self.reader.read(65536), SECONDS)
        except ConnectionError:
            return b""


@pytest.fixture
async def server():
    async with Server() as server:
        yield server


@pytest.fixture
async def gate(server, tmp_path):
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": ""}}
    admin = tmp_path / "admin"
    admin.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"}))
    gate = Gate("one", admin, tmp_path, free_port())
    await gate.start()
    yield gate
    await gate.stop()


@pytest.fixture
async def connect(gate):
    writers = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writers.append(writer)
        return Connection(reader, writer)

    yield connect
    for writer in writers:
        writer.close()


@pytest.fixture
async def one(connect):
    return await connect()


async def test_gate_forwards_requests_without_fault(one, gate):
    assert await one.ask("GET /a") == ANSWER
    assert await one.ask("POST /a") == ANSWER
    assert gate.watches == 0


async def test_shut_gate_closes_connections_until_repaired(one, connect, gate):
    assert await one.ask("GET /a") == ANSWER
    gate.shut()
    assert await one.ask("GET /a") == b""
    assert await (await connect()).ask("GET /a") == b""
    gate.repair()
    assert await (await connect()).ask("GET /a") == ANSWER


async def test_stalled_connection_is_forwarded_after_repair(one, gate, server):
    assert await one.ask("GET /a") == ANSWER
    gate.stall()
    asking = asyncio.create_task(one.ask("GET /b"))
    done, _ = await asyncio.wait({asking}, timeout=0.2)
    assert not done
    assert server.lines == ["GET /a HTTP/1.1"]
    gate.repair()
    assert await asking == ANSWER


async def test_drop_watches_closes_only_watch_connections(connect, gate):
    watch, other = await connect(), await connect()
    assert await watch.ask("GET /a?watch=true") == ANSWER
    assert await other.ask("GET /a") == ANSWER
    assert gate.watches == 1
    gate.drop_watches()
    assert await watch.ask("GET /a") == b""
    assert await other.ask("GET /a") == ANSWER
    await until(lambda: gate.watches == 0)


async def test_expire_watches_answers_first_request_of_each_watch_with_410(one, gate, server):
    gate.expire_watches()
    assert (await one.ask("GET /a?watch=true")).startswith(b"HTTP/1.1 410 Gone")
    assert await one.ask("GET /a?watch=true") == ANSWER
    assert (await one.ask("GET /b?watch=true")).startswith(b"HTTP/1.1 410 Gone")
    assert server.lines == ["GET /a?watch=true HTTP/1.1"]


async def test_lost_request_is_not_forwarded(connect, gate, server):
    gate.loses_requests = True
    assert await (await connect()).ask("POST /a") == b""
    assert await (await connect()).ask("GET /a") == ANSWER
    assert server.lines == ["GET /a HTTP/1.1"]


async def test_request_with_lost_response_is_forwarded(connect, gate, server):
    gate.loses_answers = True
    assert await (await connect()).ask("POST /a") == b""
    assert server.lines == ["POST /a HTTP/1.1"]


async def test_delay_applies_only_to_watch_events(connect, gate):
    gate.watch_delay_seconds = 30
    watch, other = await connect(), await connect()
    watching = asyncio.create_task(watch.ask("GET /a?watch=true"))
    assert await other.ask("GET /a") == ANSWER
    assert not watching.done()
    watching.cancel()


async def test_rewind_watches_lowers_resource_version_of_each_watch_once(one, gate, server):
    gate.rewind_watches()
    for line in ("GET /a?resourceVersion=100", "GET /a?watch=true&resourceVersion=100&allowWatchBookmarks=true"):
        await one.ask(line)
    await one.ask("GET /a?watch=true&resourceVersion=100")
    await one.ask("GET /b?watch=true&resourceVersion=7")
    await one.ask("GET /c?watch=true&resourceVersion=0")
    assert [line.removesuffix(" HTTP/1.1") for line in server.lines] == [
        "GET /a?resourceVersion=100",
        "GET /a?watch=true&resourceVersion=70&allowWatchBookmarks=true",
        "GET /a?watch=true&resourceVersion=100",
        "GET /b?watch=true&resourceVersion=1",
        "GET /c?watch=true&resourceVersion=0",
    ]


async def test_changing_watch_events_closes_existing_watches(connect, gate):
    for change in (gate.repeat_events, gate.swap_events):
        watch = await connect()
        assert await watch.ask("GET /a?watch=true") == ANSWER
        change()
        assert await watch.ask("GET /a") == b""
        gate.repair()


async def test_event_held_for_swapping_is_forwarded_after_timeout(connect, gate, server, monkeypatch):
    event = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (len(event), event)
    monkeypatch.setitem(globals(), "ANSWER", head + chunk)
    gate.swap_events()
    watch = await connect()
    assert await watch.ask("GET /a?watch=true") == head
    assert await asyncio.wait_for(watch.reader.read(65536), SECONDS) == chunk
