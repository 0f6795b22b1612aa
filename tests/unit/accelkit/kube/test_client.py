import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from accelkit.errors import ApiError
from accelkit.kube import client as module
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection


@pytest.fixture
async def server():
    """Serve `server.handle`; `server.seen` are the requests."""
    seen, closing = [], asyncio.Event()

    async def handle(request):
        body = await request.read()
        seen.append((request.method, request.path_qs, request.headers, body))
        return await server.answer(request)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(application)
    server.seen, server.closing = seen, closing
    answers(server)
    await server.start_server()
    yield server
    closing.set()
    await server.close()


def client(server, *, connection=None, **options):
    url = str(server.make_url("")).rstrip("/")
    return ApiClient(replace(connection or Connection("", None), server=url), **options)


@pytest.fixture
async def api(server):
    async with client(server) as api:
        yield api


def answers(server, body=b"{}", status=200):
    async def answer(_):
        return web.Response(body=body, status=status)

    server.answer = answer


@pytest.mark.parametrize(
    ("call", "method", "content_type"),
    [
        (lambda api: api.get("/x", query={"a": "b c"}), "GET", None),
        (lambda api: api.post("/x", {"k": 1}, query={"a": "b c"}), "POST", "application/json"),
        (lambda api: api.put("/x", {"k": 1}, query={"a": "b c"}), "PUT", "application/json"),
        (lambda api: api.patch("/x", {"k": 1}, query={"a": "b c"}), "PATCH", "application/merge-patch+json"),
        (
            lambda api: api.patch("/x", {"k": 1}, kind="json", query={"a": "b c"}),
            "PATCH",
            "application/json-patch+json",
        ),
    ],
)
async def test_request_has_content_type_of_its_method(server, api, call, method, content_type):
    answers(server, b"answer")
    assert await call(api) == b"answer"
    ((sent, path, headers, body),) = server.seen
    assert (sent, path) == (method, "/x?a=b+c")
    assert body == (b"" if content_type is None else b'{"k":1}')
    if content_type is not None:
        assert headers["Content-Type"] == content_type


async def test_query_parameters_are_encoded(server, api):
    await api.get("/x", query={"labelSelector": "a=b,c", "continue": "x+y&z/%41"})
    assert "Authorization" not in server.seen[0][2]
    assert server.seen[0][1] == "/x?labelSelector=a%3Db%2Cc&continue=x%2By%26z%2F%2541"


async def test_delete_sends_options(server, api):
    await api.delete("/x", {"gracePeriodSeconds": 0})
    assert server.seen[0][3] == b'{"gracePeriodSeconds":0}'


async def test_token_is_read_for_every_request(server, tmp_path):
    token = tmp_path / "token"
    async with client(server, connection=Connection("", None, lambda: f"Bearer {token.read_text().strip()}")) as api:
        for text in ("one\n", "two\n"):
            token.write_text(text)
            await api.get("/x")
    assert [headers["Authorization"] for _, _, headers, _ in server.seen] == ["Bearer one", "Bearer two"]


async def test_impersonation_headers_are_sent_with_every_request(server):
    headers = ("Impersonate-User", "ml"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")
    async with client(server, connection=Connection("", None, headers=headers)) as api:
        await api.get("/x")
        async with api.stream("/x", query={}, silence_seconds=1):
            pass
    for _, _, seen, _ in server.seen:
        assert seen["Impersonate-User"] == "ml"
        assert seen.getall("Impersonate-Group") == ["a", "b"]


async def test_request_is_sent_through_proxy(server):
    answers(server, b"through")
    url = str(server.make_url("")).rstrip("/")
    at = Connection("http://api.invalid:6443", None, proxy=url, proxy_headers={"X-Proxy": "p"})
    async with ApiClient(at) as api:
        assert await api.get("/x") == b"through"
    [(_, _, seen, _)] = server.seen
    assert seen["Host"] == "api.invalid:6443"


async def test_unreadable_token_file_raises_api_error_without_request(server):
    missing = Path("/nonexistent/token")
    async with client(server, connection=Connection("", None, missing.read_text)) as api:
        with pytest.raises(ApiError, match="token"):
            await api.get("/x")
        with pytest.raises(ApiError, match="token"):
            await api.stream("/x", query={}, silence_seconds=1).__aenter__()
    assert server.seen == []


@pytest.mark.parametrize(
    ("body", "message", "reason"),
    [
        (
            b'{"kind": "Status", "message": "pods is forbidden", "reason": "Forbidden"}',
            "pods is forbidden",
            "Forbidden",
        ),
        (
            (
                b'{"message": "Cannot evict pod.", "details": {"causes": [{"reason": "Other"},'
                b'{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1."}]}}'
            ),
            "Cannot evict pod. The disruption budget b needs 1.",
            "",
        ),
        (b'{"message": "no", "details": {"causes": null}}', "no", ""),
        # A service of ours, through the API server's proxy.
        (b'{"error": "there is no node x"}', "there is no node x", ""),
        (b"<html>a proxy</html>", "<html>a proxy</html>", ""),
        (b"", "HTTP 403", ""),
        (b"{}", "HTTP 403", ""),
        (b"\xff\xfe", "\ufffd", ""),
        (b'{"message": "\xff"}', "message", ""),
        (b'{"later": ' + b"[" * 90_000, "later", ""),
    ],
)
async def test_error_contains_message_and_reason_of_response(server, api, body, message, reason):
    answers(server, body, 403)
    with pytest.raises(ApiError) as raised:
        await api.get("/x")
    assert message in raised.value.message
    assert (raised.value.status, raised.value.reason) == (403, reason)


@pytest.mark.parametrize(
    ("status", "unanswered"), [(300, False), (301, False), (409, False), (429, False), (500, True), (504, True)]
)
async def test_only_server_errors_mark_request_as_unanswered(server, api, status, unanswered):
    answers(server, status=status)
    with pytest.raises(ApiError) as raised:
        await api.post("/x", {})
    assert (raised.value.status, raised.value.unanswered) == (status, unanswered)


async def test_unreachable_server_marks_request_as_unanswered(server):
    url = str(server.make_url("")).rstrip("/")
    await server.close()
    async with ApiClient(Connection(url, None)) as api:
        with pytest.raises(ApiError, match="received no response") as raised:
            await api.post("/x", {})
    assert raised.value.unanswered


async def test_interrupted_response_marks_request_as_unanswered(server, api):
    async def answer(request):
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        request.transport.close()
        return response

    server.answer = answer
    with pytest.raises(ApiError, match="received no response") as raised:
        await api.post("/x", {})
    assert raised.value.unanswered


async def test_request_without_response_times_out(server):
    async def answer(_):
        await server.closing.wait()
        return web.Response()

    server.answer = answer
    async with client(server, timeout_seconds=0.05) as api:
        with pytest.raises(ApiError, match="received no response: TimeoutError"):
            await api.get("/x")


async def watch(api):
    async with api.stream("/pods/p/proxy/metrics", query={}, silence_seconds=5.0):
        pass


@pytest.mark.parametrize(
    "call",
    [
        watch,
        lambda api: api.get("/pods/p/proxy/metrics", headers={"X-Token": "t"}),
        lambda api: api.get_page("/pods/p/proxy/metrics", query={}, max_bytes=1000),
        lambda api: api.post("/simulate", {}),
    ],
)
async def test_redirect_response_is_not_followed(server, api, call):
    async def answer(request):
        if "proxy" in request.path or "simulate" in request.path:
            # The API server hands on what pods answer, and pods may be anybody's.
            raise web.HTTPFound(server.make_url("/api/v1/secrets"))
        return web.Response(body=b"{}")

    server.answer = answer
    with pytest.raises(ApiError) as raised:
        await call(api)
    assert raised.value.status == 302
    assert len(server.seen) == 1


async def test_watch_splits_lines_at_any_chunk_boundary(server, api):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in (b"on", b"e\ntwo\nth", b"ree\n", b"\nlost"):
            await response.write(chunk)
        return response

    server.answer = answer
    async with api.stream("/x", query={}, silence_seconds=5) as lines:
        assert [line async for line in lines] == [b"one", b"two", b"three", b""]


async def test_rejected_watch_raises_error_with_status(server, api):
    answers(server, b'{"message": "too old"}', 410)
    with pytest.raises(ApiError, match="too old") as raised:
        async with api.stream("/x", query={}, silence_seconds=5):
            pass
    assert raised.value.status == 410


async def test_silent_watch_raises_error(server, api):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await server.closing.wait()
        return response

    async def read_all(api, seen):
        async with api.stream("/x", query={}, silence_seconds=0.5) as lines:
            async for line in lines:
                seen.append(line)

    server.answer, seen = answer, []
    with pytest.raises(ApiError, match="the watch of /x failed"):
        await read_all(api, seen)
    assert seen == [b"one"]


async def test_unopened_client_raises_error():
    with pytest.raises(RuntimeError, match="async with"):
        await ApiClient(Connection("http://127.0.0.1:1", None)).get("/x")


async def test_long_error_body_is_truncated(server, api):
    answers(server, b"x" * 299 + b"yz", 502)
    with pytest.raises(ApiError) as raised:
        await api.get("/x")
    assert raised.value.message == "x" * 299 + "y"


async def test_long_event_is_searched_for_line_end_only_once(monkeypatch):
    searched = 0

    class Pending(bytearray):
        def find(self, sub, start=0):
            nonlocal searched
            searched += len(self) - start
            return super().find(sub, start)

    class Content:
        async def iter_any(self):
            for _ in range(100):
                yield b"x" * 1000
            yield b"\nsecond\nthi"
            yield b"rd\n"

    monkeypatch.setattr(module, "bytearray", Pending, raising=False)
    lines = [line async for line in module._split_lines(Content())]
    assert lines == [b"x" * 100_000, b"second", b"third"]
    assert searched < 110_000
