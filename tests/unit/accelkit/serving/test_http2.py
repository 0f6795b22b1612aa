"""HTTP/2 as kube-scheduler speaks it, on real sockets."""

import asyncio
import json
import os

import pytest
import uvloop
from cryptography.x509.oid import ExtendedKeyUsageOID
from http2_client import speaking
from http_service import connected, serving
from support.handlers import Gate
from support.waiting import until

from accelkit.serving import server as module
from accelkit.serving.http2 import connection as http2_module
from accelkit.serving.server import HttpServer, Reply


async def echo(method, path, body):
    return Reply(201, json.dumps([method, path, body.decode()]).encode())


async def test_http2_request_receives_response(pki):
    async with serving(echo, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        got = await client.ask("POST", "/a%20b?c=d", body=b"hello")
        assert (got.status, json.loads(got.body)) == (201, ["POST", "/a b", "hello"])
        assert got.headers == {":status": "201", "server": "accelkit", "content-type": "application/json"}
        assert json.loads((await client.ask("GET", "/")).body) == ["GET", "/", ""]
        head = await client.ask("HEAD", "/")
        assert (head.status, head.body) == (201, b"")
        assert server.requests == {"HTTP/1.1": 0, "HTTP/2": 3}


async def test_client_without_http2_is_served_over_http1(pki):
    async with serving(echo, tls=pki.files) as (server, at), connected(at, pki.client()) as client:
        assert (await client.ask("GET", "/"))[0] == 201
        assert server.requests == {"HTTP/1.1": 1, "HTTP/2": 0}


async def test_http2_is_not_negotiated_when_disabled(pki):
    tls, stop = pki.client(), asyncio.Event()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(echo, tls=pki.files) as (former, at):
        former.stop()
        await until(former.ended.done)
        server = asyncio.create_task(HttpServer(at, echo, http2=False).run(stop))
        async with connected(at, tls) as client:
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            assert (await client.ask("GET", "/"))[0] == 201
        stop.set()
        await server


async def test_slow_request_does_not_block_other_streams(pki):
    gate = Gate()

    async def handle(method, path, body):
        return await (gate.handle() if path == "/slow" else echo(method, path, body))

    async with serving(handle, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        slow = [await client.send("GET", "/slow") for _ in range(30)]
        assert (await client.ask("GET", "/fast")).status == 201
        gate.open.set()
        assert [(await client.answer(each)).body for each in slow] == 30 * [b"done"]


async def test_large_bodies_are_transferred_intact_in_parallel(pki):
    async def back(_method, _path, body):
        return Reply(200, body[::-1])

    bodies = [os.urandom(3_000_000 + number) for number in range(4)]
    async with serving(back, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        answers = await asyncio.gather(*(client.ask("POST", "/", body=body) for body in bodies))
        assert [each.body for each in answers] == [body[::-1] for body in bodies]
        assert server._held_bytes == 0


async def test_client_certificate_without_accepted_name_is_refused(pki):
    pki.write("client", pki.authority._issue("other", "", ExtendedKeyUsageOID.CLIENT_AUTH, ()))
    async with serving(echo, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        number = await client.send("POST", "/", ("content-length", "100000000"), end=False)
        got = await client.answer(number)
        assert (got.status, got.body) == (403, b'{"error":"no name of the client certificate is accepted here"}')
        assert await client.until_closed() == (0, number)


async def test_oversized_body_is_refused_before_transfer(pki, monkeypatch):
    async with serving(echo, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        number = await client.send("POST", "/", ("content-length", "134217729"), body=b"x" * 60_000, end=False)
        assert (await client.answer(number)).status == 413
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 10)
    async with serving(echo, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        assert (await client.ask("POST", "/", body=b"x" * 11)).status == 413
        assert server._held_bytes == 0


@pytest.mark.parametrize("said", [True, False])
async def test_total_size_of_pending_bodies_is_limited(pki, monkeypatch, said):
    monkeypatch.setattr(module, "MAX_BODIES_BYTES", 1000)
    gate = Gate()

    def request(client, size):
        headers = [("content-length", str(size))] if said else []
        return client.send("POST", "/", *headers, body=size * b"x")

    async with serving(gate.handle, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        first = await request(client, 600)
        await until(lambda: server._held_bytes == 600)
        refused = await client.answer(await request(client, 401))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        gate.open.set()
        # It is answered, though the client was told to come back by another connection.
        assert (await client.answer(first)).body == b"done"
        assert await client.until_closed() is not None
        await until(lambda: not server._held_bytes)


async def test_incomplete_body_times_out(pki, monkeypatch):
    monkeypatch.setattr(module, "_BODY_SECONDS", 0.1)
    async with serving(echo, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        number = await client.send("POST", "/", ("content-length", "500"), body=b"{", end=False)
        assert (await client.answer(number)).status == 408
        assert await client.until_closed() == (0, number)
        await until(lambda: not server._held_bytes)


async def test_cancelled_request_does_not_affect_other_requests(pki, caplog):
    handled = []

    async def handle(*request):
        handled.append(request)
        return await echo(*request)

    async with serving(handle, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        number = await client.send("POST", "/", ("content-length", "500"), body=b"{", end=False)
        client.http.reset_stream(number)
        await client.flush()
        assert (await client.ask("GET", "/here")).status == 201
        async with speaking(at, pki.client()) as other:
            await other.send("POST", "/", body=b"{", end=False)
            await until(lambda: server._reading)
        await until(lambda: not server._reading and not server._held_bytes)
    assert handled == [("GET", "/here", b"")]
    assert caplog.records == []


async def test_shutdown_waits_for_pending_responses_and_notifies_client(pki):
    gate = Gate()
    async with (
        serving(gate.handle, tls=pki.files) as (server, at),
        speaking(at, pki.client()) as client,
        speaking(at, pki.client()) as idle,
    ):
        number = await client.send("GET", "/")
        late = await client.send("POST", "/", ("content-length", "500"), body=b"{", end=False)
        other = await idle.send("GET", "/")
        await until(lambda: gate.asked == 2)
        idle.http.reset_stream(other)
        await idle.flush()
        server.stop()
        assert (await client.answer(late)).status == 408
        while client.goodbye is None:
            await client.news()
        assert client.goodbye == (0, late)
        assert not server.ended.done()
        gate.open.set()
        assert (await client.answer(number)).status == 200
        assert (await idle.until_closed())[0] == 0
        await client.until_closed()
        await until(server.ended.done)


async def test_renewal_closes_connections_and_ignores_later_requests(pki):
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (server, at), speaking(at, pki.client()) as client:
        number = await client.send("GET", "/")
        await until(lambda: gate.asked)
        server.renew()
        # Sent before we have read that the server goes, with a body that nobody reads.
        lost = await client.send("POST", "/", body=b"x" * 10_000)
        gate.open.set()
        assert (await client.answer(number)).status == 200
        assert await client.until_closed() == (0, number)
        assert client.streams[lost].status == 0
        assert gate.asked == 1
        async with speaking(at, pki.client()) as new:
            assert (await new.ask("GET", "/")).status == 200


async def test_idle_connection_is_closed(pki, monkeypatch):
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.2)
    gate = Gate()
    async with serving(gate.handle, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        number = await client.send("GET", "/")
        await asyncio.sleep(0.5)
        # Not while an answer is waited for.
        assert client.goodbye is None
        gate.open.set()
        assert (await client.answer(number)).status == 200
        assert await client.until_closed() == (0, number)


async def test_stream_is_reset_when_client_does_not_read_response(pki, monkeypatch):
    monkeypatch.setattr(http2_module, "ANSWER_SECONDS", 0.2)

    async def much(*_):
        return Reply(200, bytes(1 << 20))

    async with serving(much, tls=pki.files) as (server, at), speaking(at, pki.client(), fetch=False) as client:
        got = await client.ask("GET", "/")
        assert got.reset == 8
        assert 0 < len(got.body) < 1 << 20
        await until(lambda: all(not each._streams for each in server._connections._served))


async def test_shutdown_leaves_no_running_tasks(pki):
    before = asyncio.all_tasks()
    async with serving(echo, tls=pki.files) as (_, at), speaking(at, pki.client()) as client:
        await client.ask("GET", "/")
        assert asyncio.all_tasks() > before
    await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.parametrize(
    "case",
    [
        test_http2_request_receives_response,
        test_client_without_http2_is_served_over_http1,
        test_slow_request_does_not_block_other_streams,
        test_large_bodies_are_transferred_intact_in_parallel,
        test_client_certificate_without_accepted_name_is_refused,
        test_shutdown_waits_for_pending_responses_and_notifies_client,
    ],
)
def test_http2_works_on_uvloop(pki, case):
    uvloop.run(case(pki))
