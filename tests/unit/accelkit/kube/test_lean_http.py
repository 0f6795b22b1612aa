"""The lean client against a server whose every byte is in our hands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl

import pytest
import uvloop
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.install.certificates.issuing import Authority
from accelkit.kube import lean_http as module
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection, load_connection

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request by the next of `answers`; the last one again and again."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self.open = 0
        self.writers: list[asyncio.StreamWriter] = []
        # Bytes written at once.
        self.step = 1 << 20

    @contextlib.asynccontextmanager
    async def served(self, tls: ssl.SSLContext | None = None):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        scheme, port = "https" if tls else "http", server.sockets[0].getsockname()[1]
        try:
            yield f"{scheme}://127.0.0.1:{port}"
        finally:
            server.close()
            for writer in self.writers:
                writer.close()
            await asyncio.gather(*(each.wait_closed() for each in self.writers), return_exceptions=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                headers = dict(line.split(": ", 1) for line in head[1:] if line)
                self.requests.append((head[0], headers, await reader.readexactly(int(headers["Content-Length"]))))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    break
                for place in range(0, len(answer), self.step):
                    writer.write(answer[place : place + self.step])
                    await writer.drain()
                    await asyncio.sleep(0)
        self.open -= 1
        writer.close()


@contextlib.asynccontextmanager
async def posting(server, *, tls=None, trusted=None, **options):
    async with server.served(tls) as url, ApiClient(Connection(url, trusted), lean=True, **options) as api:
        yield api


async def test_a_request_says_what_is_needed_and_connections_are_used_again():
    server = Server(OK)
    async with posting(server) as api:
        for number in range(3):
            assert await api.post("/x", {"k": number}, query={"a": "b c"}, headers={"X-Y": "z"}) == b"{}"
    line, headers, body = server.requests[2]
    assert (line, body) == ("POST /x?a=b+c HTTP/1.1", b'{"k":2}')
    assert headers.pop("Host").startswith("127.0.0.1:")
    assert headers == {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "X-Y": "z",
        "Content-Length": "7",
    }
    assert server.connections == 1


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\nCONTENT-LENGTH:  5 \r\nB: c\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n", b"hello"),
        (b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
async def test_answers_of_each_form_are_read_however_they_are_cut(answer, body, step):
    server = Server(answer)
    server.step = step
    async with posting(server) as api:
        assert [await api.post("/x", {}) for _ in range(3)] == 3 * [body]
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + 70_000 * b"x",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + (17 << 20) * b"x",
    ],
)
async def test_what_is_no_answer_is_none_and_its_connection_is_not_used_again(answer):
    server = Server(answer, OK)
    async with posting(server) as api:
        with pytest.raises(ApiError, match=r"POST http://127\.0\.0\.1:\d+/x got no answer: .") as lost:
            await api.post("/x", {})
        assert lost.value.unanswered
        assert await api.post("/x", {}) == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize("answer", [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), OK + b"more"])
async def test_a_connection_after_which_nothing_follows_is_not_used_again(answer):
    server = Server(answer)
    async with posting(server) as api:
        for _ in range(2):
            assert await api.post("/x", {}) == b"{}"
    assert server.connections == 2


async def test_a_refusal_is_what_the_server_says():
    body = json.dumps({"message": "no", "reason": "Conflict"}).encode()
    async with posting(Server(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))) as api:
        with pytest.raises(ApiError, match="no") as refused:
            await api.post("/x", {})
    assert refused.value.conflict
    assert not refused.value.unanswered


async def test_no_answer_in_time_is_none():
    async with posting(Server(b""), timeout_seconds=0.1) as api:
        with pytest.raises(ApiError, match="got no answer: TimeoutError") as lost:
            await api.post("/x", {})
    assert lost.value.unanswered


async def test_who_is_cancelled_leaves_no_answer_to_the_next():
    server = Server(b"", OK)
    async with posting(server) as api:
        first = asyncio.create_task(api.post("/x", {}))
        await until(lambda: server.requests)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await api.post("/x", {}) == b"{}"
    assert server.connections == 2


async def test_what_was_idle_for_long_is_not_used_again(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    server = Server(OK)
    async with posting(server) as api:
        for _ in range(3):
            await api.post("/x", {})
    assert server.connections == 3


async def test_connections_that_nothing_needs_are_closed_while_others_are_used(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.3)
    server = Server(OK)
    server.step = 1
    async with posting(server) as api:
        await asyncio.gather(*(api.post("/x", {}) for _ in range(20)))
        assert server.open > 10

        async def post_until_one_is_open():
            while server.open > 1:
                await api.post("/x", {})
                await asyncio.sleep(0.01)

        await asyncio.wait_for(post_until_one_is_open(), 10)
        await until(lambda: not server.open)
        assert await api.post("/x", {}) == b"{}"


async def test_there_are_no_more_connections_than_allowed():
    server = Server(OK)
    async with posting(server, connections=3) as api:
        await asyncio.gather(*(api.post("/x", {}) for _ in range(20)))
        assert server.connections <= 3
    await until(lambda: not server.open)


async def test_the_server_needs_a_certificate_of_the_authority(tmp_path):
    authority, other = Authority("ours"), Authority("others")
    pair = authority.issue_server("api", ("127.0.0.1",))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusted, wrong = (ssl.create_default_context(cadata=each.certificate.decode()) for each in (authority, other))
    async with posting(Server(OK), tls=tls, trusted=trusted) as api:
        assert await api.post("/x", {}) == b"{}"
    async with posting(Server(OK), tls=tls, trusted=wrong) as api:
        with pytest.raises(ApiError, match="CERTIFICATE_VERIFY_FAILED"):
            await api.post("/x", {})
    async with Server(OK).served(tls) as url:
        named = Connection(url, trusted, server_name="another.name")
        async with ApiClient(named, lean=True) as api:
            with pytest.raises(ApiError, match=r"another\.name"):
                await api.post("/x", {})


async def test_nothing_can_be_put_into_the_head_of_a_request():
    server = Server(OK)
    async with server.served() as url:
        at = Connection(url, None, lambda: "Bearer x\r\nX-Y: z")
        async with ApiClient(at, lean=True) as api:
            with pytest.raises(ApiError, match="cannot stand in the head"):
                await api.post("/x", {})
    assert server.requests == []


async def test_a_token_that_is_renewed_is_read_again(tmp_path):
    authority = Authority("ours")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    token = tmp_path / "token"
    token.write_text("one\n")
    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
        "ACCELKIT_SERVICE_ACCOUNT": str(tmp_path),
    }
    read = load_connection(environ=environ).read_authorization
    assert [read(), read()] == 2 * ["Bearer one"]
    # As a kubelet does, though it is as long and as old.
    before = token.stat()
    (tmp_path / "new").write_text("two\n")
    os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new").rename(token)
    assert read() == "Bearer two"
    token.write_text("three\n")
    assert read() == "Bearer three"
    token.unlink()
    with pytest.raises(OSError, match="token"):
        read()


@pytest.mark.parametrize(
    "case",
    [
        test_a_request_says_what_is_needed_and_connections_are_used_again,
        test_who_is_cancelled_leaves_no_answer_to_the_next,
        test_no_answer_in_time_is_none,
    ],
)
def test_it_is_the_same_on_the_loop_that_the_extender_has(case):
    uvloop.run(case())


def test_the_certificate_is_checked_on_that_loop_too(tmp_path):
    uvloop.run(test_the_server_needs_a_certificate_of_the_authority(tmp_path))
