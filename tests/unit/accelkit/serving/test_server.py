import asyncio
import json
import socket

import pytest
from http_service import Pki, connected, reconnected, serving
from ports import free_port
from support.handlers import Gate
from support.waiting import until

from accelkit.errors import ConfigurationError
from accelkit.serving import server as module
from accelkit.serving.server import MAX_BODY_BYTES, HttpServer, Reply
from accelkit.serving.tls import Listen

CHUNKED = ["Transfer-Encoding: chunked"]


async def echo(method, path, body):
    """Answer with what was asked; /bye closes the connection."""
    asked = json.dumps([method, path, body.decode()]).encode()
    return Reply(201, asked, "text/plain; charset=utf-8", close=path == "/bye")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_handler_receives_method_path_and_body_and_returns_response(host):
    async with serving(echo, host=host) as (_, at), connected(at) as connection:
        status, headers, body = await connection.ask("PUT", "/a/b", b"text")
    assert (status, json.loads(body)) == (201, ["PUT", "/a/b", "text"])
    assert headers["content-type"] == "text/plain; charset=utf-8"


async def test_connection_is_reused_until_response_closes_it():
    async with serving(echo) as (_, at), connected(at) as connection:
        for _ in range(3):
            _, headers, _ = await connection.ask("GET", "/")
            assert "connection" not in headers
        _, headers, _ = await connection.ask("GET", "/bye")
        assert headers["connection"] == "close"
        assert await connection.closed()


async def test_slow_response_does_not_block_other_connections():
    gate = Gate()
    async with serving(gate.handle) as (_, at), connected(at) as slow, connected(at) as other:
        await slow.send("GET", "/")
        await until(lambda: gate.asked)
        await other.send("GET", "/")
        gate.open.set()
        assert await slow.answer() == await other.answer()


async def test_chunked_body_is_assembled_and_websocket_upgrade_is_ignored():
    async with serving(echo) as (_, at), connected(at) as connection:
        _, _, body = await connection.ask("POST", "/", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", CHUNKED)
    assert json.loads(body) == ["POST", "/", "onetwo"]
    upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="]
    async with serving(echo) as (_, at), connected(at) as connection:
        assert (await connection.ask("GET", "/", headers=upgrade))[0] == 201


async def test_body_over_128_mib_is_refused_before_transfer():
    async with serving(echo) as (server, at), connected(at) as fits, connected(at) as larger:
        await fits.send("POST", "/", b"{", ["Content-Length: 134217728"])
        status, _, body = await larger.ask("POST", "/", b"{", ["Content-Length: 134217729"])
        assert (status, body) == (413, b'{"error":"the body is larger than 134217728 bytes"}')
        server.stop()
        assert (await fits.answer())[0] == 408
    assert MAX_BODY_BYTES == 134217728


@pytest.mark.parametrize(("size", "status"), [(10, 201), (11, 413)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_body_limit_applies_to_plain_and_chunked_bodies(monkeypatch, size, status, chunked):
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 10)
    body = b"x" * size
    async with serving(echo) as (_, at), connected(at) as connection:
        if chunked:
            sent = b"6\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (body[:6], size - 6, body[6:])
            answered, _, _ = await connection.ask("POST", "/", sent, CHUNKED)
        else:
            answered, _, _ = await connection.ask("POST", "/", body)
    assert answered == status


async def test_incomplete_body_times_out_and_connection_is_closed(monkeypatch):
    monkeypatch.setattr(module, "_BODY_SECONDS", 0.1)
    async with serving(echo) as (_, at), connected(at) as connection:
        status, headers, body = await connection.ask("POST", "/", b"{", ["Content-Length: 500"])
        assert (status, body) == (408, b'{"error":"the body did not arrive in time"}')
        assert headers["connection"] == "close"
        assert await connection.closed()


async def test_disconnect_during_body_does_not_affect_other_requests(caplog):
    handled = []

    async def handle(*request):
        handled.append(request)
        return await echo(*request)

    async with serving(handle) as (_, at), connected(at) as other:
        for headers in (["Content-Length: 500"], CHUNKED):
            async with connected(at) as connection:
                await connection.send("POST", "/", b"5\r\n", headers)
        assert (await other.ask("GET", "/here"))[0] == 201
    assert handled == [("GET", "/here", b"")]
    assert caplog.records == []


async def test_invalid_http_is_refused_without_affecting_other_connections():
    async with serving(echo) as (_, at), connected(at) as broken, connected(at) as other:
        await broken.send("nonsense nonsense", "/", headers=["Content-Length: -5"])
        assert not (await broken.reader.read()).startswith(b"HTTP/1.1 2")
        assert (await other.ask("GET", "/"))[0] == 201


async def test_shutdown_waits_for_pending_responses_and_frees_port():
    gate = Gate()
    async with serving(gate.handle) as (server, at), connected(at) as connection, connected(at) as idle:
        await connection.send("GET", "/")
        await until(lambda: gate.asked)
        server.stop()
        assert await idle.closed()
        assert not server.ended.done()
        gate.open.set()
        assert (await connection.answer())[0] == 200
        await until(server.ended.done)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(at.host, at.port)
        HttpServer(at, echo)._socket.close()


async def test_shutdown_does_not_wait_for_incomplete_bodies():
    async with serving(echo) as (server, at), connected(at) as connection, connected(at) as late:
        await connection.send("POST", "/", b"{", ["Content-Length: 500"])
        await late.ask("GET", "/")
        server.stop()
        assert (await connection.answer())[0] == 408
        await until(server.ended.done)


async def test_renewal_closes_idle_connections_and_accepts_new_connections():
    async with serving(echo) as (server, at):
        for _ in range(3):
            async with connected(at) as idle:
                await idle.ask("GET", "/")
                server.renew()
                assert await idle.closed()
                async with reconnected(at) as new:
                    # Once, not again and again.
                    await asyncio.sleep(0.05)
                    assert (await new.ask("GET", "/"))[0] == 201


async def test_renewal_and_shutdown_wait_for_pending_responses():
    gate = Gate()
    async with serving(gate.handle) as (server, at), connected(at) as connection:
        await connection.send("GET", "/")
        await until(lambda: gate.asked)
        server.renew()
        async with connected(at) as new:
            await new.send("GET", "/")
            await until(lambda: gate.asked == 2)
            server.stop()
            await asyncio.sleep(0.05)
            assert not server.ended.done()
            gate.open.set()
            assert (await connection.answer())[0] == (await new.answer())[0] == 200


async def test_request_during_renewal_is_served_by_next_server():
    async with serving(echo) as (server, at):
        statuses = []
        for _ in range(20):
            server.renew()
            async with connected(at) as connection:
                await connection.send("GET", "/", headers=["Connection: close"])
                try:
                    statuses.append((await connection.answer())[0])
                except (asyncio.IncompleteReadError, ConnectionError):
                    # Taken by the former server, which was ending.
                    continue
        assert statuses
        assert set(statuses) == {201}


async def test_shutdown_leaves_no_running_tasks():
    before = asyncio.all_tasks()
    async with serving(echo) as (server, at):
        server.renew()
        async with reconnected(at):
            assert asyncio.all_tasks() > before
    await until(lambda: asyncio.all_tasks() == before)


async def test_failed_start_leaves_no_running_tasks_and_frees_port(tmp_path):
    before, pki = asyncio.all_tasks(), Pki(tmp_path)
    pki.files.key.write_text("nonsense")
    at = Listen("127.0.0.1", free_port(), pki.files)
    with pytest.raises(ConfigurationError, match="PEM"):
        await HttpServer(at, echo).run(asyncio.Event())
    await until(lambda: asyncio.all_tasks() == before)
    HttpServer(at, echo)._socket.close()


async def test_occupied_port_is_an_error_and_just_closed_port_can_be_reused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use") as e:
            HttpServer(Listen("127.0.0.1", port), echo)
    assert "another port" in e.value.next_step
    async with serving(echo) as (_, at), connected(at) as connection:
        await connection.ask("GET", "/bye")
        assert await connection.closed()
    HttpServer(at, echo)._socket.close()
