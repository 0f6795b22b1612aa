"""What the read port answers, and to whom, over TLS without a certificate."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from http_service import PATIENCE_SECONDS, Pki, connected
from ports import free_port
from support.waiting import until

from accelkit.errors import ApiError, NotReadyError
from accelkit.extender.read_port import reader as module
from accelkit.extender.read_port import reviews
from accelkit.extender.read_port.reader import Reader
from accelkit.extender.read_port.reviews import Reviewer
from accelkit.serving import server as server_module
from accelkit.serving.server import HeadServer, Reply
from accelkit.serving.tls import Listen

BODY_BYTES = 10_000


class Shown:
    """Stands for the routes: answers with what was asked, once `open` is set."""

    def __init__(self):
        self.asked, self.at_once, self.most, self.open = [], 0, 0, asyncio.Event()
        self.open.set()
        self.error = None

    async def handle(self, method, path, body):
        if self.error:
            raise self.error
        self.asked.append((method, path, body))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return Reply(200, json.dumps(path).encode())


@pytest.fixture
async def port(api, tmp_path):
    """The read port: `shown` is behind it, `connect` connects without a certificate, `ask` asks once."""
    pki, shown = Pki(tmp_path), Shown()
    at = Listen("127.0.0.1", free_port(), replace(pki.files, client_ca=None))
    server = HeadServer(at, Reader(shown, Reviewer(api, "d", "s")).handle, connections=32, body_bytes=BODY_BYTES)
    stop = asyncio.Event()
    serving = asyncio.create_task(server.run(stop))

    class Port:
        def __init__(self):
            self.shown = shown

        def connect(self):
            return connected(at, pki.client(""))

        async def crowd(self, stack, headers):
            """Connect readers with these headers, whose connections the stack closes."""
            found = [await stack.enter_async_context(self.connect()) for _ in headers]
            for connection, header in zip(found, headers, strict=True):
                await connection.send("GET", "/inspect", b"", [header])
            return found

        async def ask(self, method="GET", path="/inspect", *headers, body=b""):
            async with self.connect() as connection:
                length = [f"Content-Length: {len(body)}"] if body else []
                await connection.send(method, path, body, [*headers, *length] or ["X-None: x"])
                status, _, answer = await connection.answer()
                return status, json.loads(answer)

    yield Port()
    stop.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await serving


GOOD = "X-Accelkit-Token: good"


@pytest.mark.parametrize("path", ["/inspect", "/inspect/n", "/version"])
@pytest.mark.parametrize("header", [GOOD, "Authorization: Bearer good", "authorization: bearer good"])
async def test_valid_token_can_read_inspect_and_version(port, path, header):
    assert await port.ask("GET", path, header) == (200, path)
    assert port.shown.asked == [("GET", path, b"")]


async def test_head_request_is_answered_without_a_body(port):
    async with port.connect() as connection:
        await connection.send("HEAD", "/inspect", b"", [GOOD])
        assert (await connection.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await connection.closed()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        (["Authorization: Basic good"], 401),
        (["Authorization: good"], 401),
        (["X-Accelkit-Token: unknown"], 401),
        (["X-Accelkit-Token: other"], 401),
        (["X-Accelkit-Token: poor"], 403),
        # What is sent for us alone counts.
        (["X-Accelkit-Token: poor", "Authorization: Bearer good"], 403),
    ],
)
async def test_request_without_authorized_token_is_refused_with_error(port, headers, status):
    answered, body = await port.ask("GET", "/inspect", *headers)
    assert answered == status
    assert list(body) == ["error"]
    assert port.shown.asked == []


async def test_token_with_non_ascii_bytes_is_refused(port):
    async with port.connect() as connection:
        connection.writer.write(b"GET /inspect HTTP/1.1\r\nHost: x\r\nX-Accelkit-Token: \xff\xfe\r\n\r\n")
        assert (await connection.answer())[0] in {400, 401}
    assert port.shown.asked == []


@pytest.mark.parametrize("prefix", ["", "/gcushare-scheduler", "/gpushare-scheduler", "/scheduler"])
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_scheduler_verbs_are_not_served(port, prefix, verb):
    path = f"{prefix}/{verb}"
    assert (await port.ask("POST", path, GOOD, body=b"{}"))[0] == 405
    assert (await port.ask("GET", path, GOOD))[0] == 404
    assert port.shown.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get"])
async def test_only_get_and_head_are_accepted(port, method):
    async with port.connect() as connection:
        await connection.send(method, "/inspect", b"", [GOOD])
        assert (await connection.answer())[0] in {400, 405}
    assert port.shown.asked == []


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/readyz", "/healthz", "/inspect2", "/gcushare-scheduler/inspect", "//bind", "/inspect/../bind"],
)
async def test_unknown_path_is_not_found_and_path_traversal_is_not_resolved(port, path):
    status, answer = await port.ask("GET", path, GOOD)
    # A name is looked for, and nothing is resolved.
    assert (status, answer) == (200, path) if path.startswith("/inspect/") else status == 404


async def test_token_with_create_permission_can_simulate(port, api):
    assert await port.ask("POST", "/simulate", GOOD, body=b"x" * BODY_BYTES) == (200, "/simulate")
    assert port.shown.asked == [("POST", "/simulate", b"x" * BODY_BYTES)]
    assert [each.body["spec"].get("resourceAttributes", {}).get("verb") for each in api.requests] == [None, "create"]


@pytest.mark.parametrize(("header", "status"), [("X-None: x", 401), ("X-Accelkit-Token: poor", 403)])
async def test_body_of_unauthorized_simulation_is_not_read(port, header, status):
    async with port.connect() as connection:
        # What is announced never comes.
        await connection.send("POST", "/simulate", b"x", [header, f"Content-Length: {BODY_BYTES}"])
        assert (await connection.answer())[0] == status
    assert port.shown.asked == []


async def test_simulation_with_get_permission_only_is_refused_with_missing_verb(port, api):
    api.verbs = {"get"}
    assert (await port.ask("GET", "/inspect", GOOD))[0] == 200
    refused = await port.ask("POST", "/simulate", GOOD, body=b"{}")
    assert refused == (403, {"error": "ann may not create services/proxy of https:s:read in namespace d"})


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_simulation_requires_post(port, method):
    async with port.connect() as connection:
        await connection.send(method, "/simulate", b"", [GOOD])
        head = await connection.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert port.shown.asked == []


async def test_oversized_simulation_body_is_refused(port):
    status, answer = await port.ask("POST", "/simulate", GOOD, body=b"x" * (BODY_BYTES + 1))
    assert (status, answer) == (413, {"error": f"the body is larger than {BODY_BYTES} bytes"})
    assert port.shown.asked == []


async def test_oversized_chunked_body_is_refused(port):
    async with port.connect() as connection:
        await connection.send("POST", "/simulate", b"", [GOOD, "Transfer-Encoding: chunked"])
        connection.writer.write(b"%x\r\n%s\r\n" % (BODY_BYTES + 1, b"x" * (BODY_BYTES + 1)))
        assert (await connection.answer())[0] == 413


async def test_incomplete_body_times_out(port, monkeypatch):
    monkeypatch.setattr(server_module, "_SMALL_BODY_SECONDS", 0.05)
    async with port.connect() as connection:
        await connection.send("POST", "/simulate", b"x", [GOOD, "Content-Length: 9"])
        assert (await connection.answer())[0] == 408
    assert port.shown.asked == []


async def test_reads_do_not_wait_for_a_simulation(port):
    port.shown.open.clear()
    async with port.connect() as one:
        await one.send("POST", "/simulate", b"{}", [GOOD, "Content-Length: 2"])
        await until(lambda: port.shown.asked)
        async with port.connect() as other:
            await other.send("GET", "/inspect", b"", [GOOD])
            await until(lambda: len(port.shown.asked) == 2)
            port.shown.open.set()
            assert [(await each.answer())[0] for each in (one, other)] == [200, 200]


@pytest.mark.parametrize("part", ["tokenreviews", "localsubjectaccessreviews"])
async def test_requests_fail_with_503_if_tokens_cannot_be_reviewed(api, port, part):
    api.fail(ApiError("no answer"), path=part, times=None)
    status, answer = await port.ask("GET", "/inspect", GOOD)
    assert status == 503
    assert answer["error"].startswith("the API server cannot review the token")
    assert port.shown.asked == []


async def test_not_ready_error_is_returned_as_503(port):
    port.shown.error = NotReadyError("the cluster has not been read yet")
    assert await port.ask("GET", "/inspect", GOOD) == (503, {"error": "the cluster has not been read yet"})


async def test_concurrent_reads_are_serialized_and_excess_readers_get_503(port, api, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.05)
    gate = asyncio.Event()
    api.before.append(lambda _: gate.wait())
    async with contextlib.AsyncExitStack() as stack:
        waiting = await port.crowd(stack, [GOOD] * 8)
        await until(lambda: len(api.requests) == 8)
        assert await port.ask("GET", "/inspect", GOOD) == (
            503,
            {"error": "8 other requests are in progress; try again"},
        )
        port.shown.open.clear()
        gate.set()
        await until(lambda: port.shown.asked)
        await asyncio.sleep(0.05)
        port.shown.open.set()
        assert [(await connection.answer())[0] for connection in waiting] == [200] * 8
    assert port.shown.most == 1
    assert (await port.ask("GET", "/inspect", GOOD))[0] == 200


async def test_disconnected_readers_free_their_slots(port, api):
    gate = asyncio.Event()
    api.before.append(lambda _: gate.wait())
    async with contextlib.AsyncExitStack() as stack:
        await port.crowd(stack, [GOOD] * 8)
        await until(lambda: len(api.requests) == 8)
    gate.set()
    await until(lambda: port.ask("GET", "/inspect", GOOD), accept=lambda answer: answer[0] == 200)


async def test_reader_waits_for_a_free_slot(port, api):
    gate = asyncio.Event()
    api.before.append(lambda _: gate.wait())
    async with contextlib.AsyncExitStack() as stack:
        await port.crowd(stack, [f"X-Accelkit-Token: bogus{number}" for number in range(9)])
        await until(lambda: len(api.requests) == 8)
        last = asyncio.create_task(port.ask("GET", "/inspect", GOOD))
        await asyncio.sleep(0.05)
        gate.set()
        assert (await last)[0] == 200


async def test_unknown_tokens_do_not_block_recently_valid_token(port, api, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(reviews, "_KEEP_ANSWERS", 2)
    assert (await port.ask("GET", "/inspect", GOOD))[0] == 200
    for number in range(4):
        assert (await port.ask("GET", "/inspect", f"X-Accelkit-Token: bogus{number}"))[0] == 401
    gate, asked = asyncio.Event(), len(api.requests)
    api.before.append(lambda request: gate.wait() if "bogus" in str(request.body) else asyncio.sleep(0))
    async with contextlib.AsyncExitStack() as stack:
        await port.crowd(stack, [f"X-Accelkit-Token: bogus-{number}" for number in range(8)])
        await until(lambda: len(api.requests) == asked + 8)
        assert (await port.ask("GET", "/inspect", "X-Accelkit-Token: another"))[0] == 503
        assert (await port.ask("GET", "/inspect", GOOD))[0] == 200
        gate.set()
