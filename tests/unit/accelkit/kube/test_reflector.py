import asyncio
import json
from types import SimpleNamespace

import pytest
from aiohttp import web
from support.http_servers import serve_http

from accelkit.errors import ApiError
from accelkit.kube import reflector as module
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.kube.listing import list_all
from accelkit.kube.reflector import Reflector
from accelkit.model.pod import Pod

PATH = "/api/v1/pods"
SECONDS = 60


def pod(name, version="1"):
    return {"metadata": {"name": name, "resourceVersion": version}}


def page(*names, version="1", more=""):
    return web.json_response(
        {"metadata": {"resourceVersion": version, "continue": more}, "items": [pod(n) for n in names]}
    )


def refusal(status):
    return web.json_response({"kind": "Status", "message": f"refused with {status}"}, status=status)


def event(kind, name, version):
    return json.dumps({"type": kind, "object": pod(name, version)}).encode() + b"\n"


def error(code):
    return json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}).encode() + b"\n"


class Watch:
    """A watch that sends these bytes; then it ends, breaks off, or stays open."""

    def __init__(self, *chunks, then="end"):
        self.chunks = chunks
        self.then = then


class Script:
    """Answers request after request, then keeps watches open."""

    def __init__(self):
        self.answers = []
        self.requests = []
        self.closing = asyncio.Event()

    async def handle(self, request):
        self.requests.append(dict(request.query))
        answer = self.answers.pop(0) if self.answers else Watch(then="stay")
        if not isinstance(answer, Watch):
            return answer
        assert request.query["watch"] == "1"
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in answer.chunks:
            await response.write(chunk)
        if answer.then == "stay":
            await self.closing.wait()
        elif answer.then == "break":
            request.transport.close()
        return response


@pytest.fixture
async def cluster(monkeypatch):
    """An API server that answers by script, and a reflector on it."""
    script, seen, delays, unreadable = Script(), asyncio.Queue(), [], []

    def take(kind, pod):
        if pod.metadata.name == found.fail_on:
            raise ValueError(pod.metadata.name)
        if pod.metadata.name == found.relist_on:
            reflector.relist()
        seen.put_nowait([kind, pod.metadata.name])

    async def sleep(seconds):
        delays.append(seconds)
        await asyncio.sleep(0)

    names = {"Event": asyncio.Event, "timeout": asyncio.timeout, "get_running_loop": asyncio.get_running_loop}
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep, **names))
    async with serve_http(script.handle) as url, ApiClient(Connection(str(url), None)) as api:
        reflector = Reflector(
            api,
            PATH,
            Pod,
            query={"fieldSelector": "spec.nodeName=n"},
            on_replace=lambda pods: seen.put_nowait(["list", *(pod.metadata.name for pod in pods)]),
            on_event=take,
            on_unreadable=lambda *change: unreadable.append(change),
        )

        async def expect(*expected):
            for each in expected:
                assert await asyncio.wait_for(seen.get(), SECONDS) == each

        def start(*answers):
            script.answers.extend(answers)
            tasks.append(asyncio.create_task(reflector.run()))

        tasks = []
        found = SimpleNamespace(
            fail_on="",
            relist_on="",
            unreadable=unreadable,
            api=api,
            script=script.answers,
            reflector=reflector,
            requests=script.requests,
            delays=delays,
            expect=expect,
            start=start,
        )
        yield found
        script.closing.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def versions(cluster):
    return [query.get("resourceVersion") for query in cluster.requests]


async def test_all_pages_are_read_before_list_is_replaced(cluster):
    cluster.start(page("a", "b", more="x"), page("c", version="7"), Watch(event("ADDED", "d", "8"), then="stay"))
    await cluster.expect(["list", "a", "b", "c"], ["ADDED", "d"])
    assert [query.get("continue") for query in cluster.requests] == [None, "x", None]
    assert versions(cluster) == [None, None, "7"]
    assert {query["fieldSelector"] for query in cluster.requests} == {"spec.nodeName=n"}
    assert cluster.requests[2]["allowWatchBookmarks"] == "true"


async def test_null_items_are_read_as_empty_list(cluster):
    cluster.start(web.json_response({"metadata": {"resourceVersion": "1"}, "items": None}))
    await cluster.expect(["list"])
    await asyncio.wait_for(cluster.reflector.synced.wait(), SECONDS)


async def test_ended_watch_resumes_at_last_resource_version(cluster):
    cluster.start(page(version="5"), Watch(event("ADDED", "a", "6")), Watch(event("DELETED", "a", "9")))
    await cluster.expect(["list"], ["ADDED", "a"], ["DELETED", "a"])
    assert versions(cluster)[:3] == [None, "5", "6"]


async def test_bookmark_updates_resource_version_without_event(cluster):
    cluster.start(page(version="5"), Watch(event("BOOKMARK", "", "99")), Watch(event("ADDED", "a", "100")))
    await cluster.expect(["list"], ["ADDED", "a"])
    assert versions(cluster)[:3] == [None, "5", "99"]


async def test_interrupted_watch_resumes_at_last_complete_event(cluster):
    half = event("MODIFIED", "a", "7")[:20]
    cluster.start(
        page(version="5"), Watch(event("ADDED", "a", "6"), half, then="break"), Watch(event("MODIFIED", "a", "7"))
    )
    await cluster.expect(["list"], ["ADDED", "a"], ["MODIFIED", "a"])
    assert versions(cluster)[:3] == [None, "5", "6"]


async def test_long_event_is_delivered(cluster):
    name = "x" * (3 << 20)
    cluster.start(page(), Watch(event("ADDED", name, "2")))
    await cluster.expect(["list"], ["ADDED", name])


@pytest.mark.parametrize("gone", [Watch(error(410)), refusal(410), Watch(error(500))], ids=["event", "status", "other"])
async def test_expired_resource_version_triggers_new_list(cluster, gone):
    cluster.start(page("a", version="5"), gone, page("b", version="50"), Watch(event("ADDED", "c", "51")))
    await cluster.expect(["list", "a"], ["list", "b"], ["ADDED", "c"])
    assert versions(cluster)[:4] == [None, "5", None, "50"]


async def test_expired_continue_token_restarts_list(cluster):
    cluster.start(page("a", more="x"), refusal(410), page("a", "b"))
    await cluster.expect(["list", "a", "b"])
    assert [query.get("continue") for query in cluster.requests[:3]] == [None, "x", None]


async def test_failures_increase_retry_delay_up_to_limit(cluster):
    cluster.start(*(refusal(503) for _ in range(12)), page("a"))
    await cluster.expect(["list", "a"])
    assert len(cluster.delays) == 12
    assert 0 < cluster.delays[0] <= 0.4
    assert cluster.delays[0] < cluster.delays[4]
    assert 5 <= cluster.delays[-1] <= 10


async def test_event_resets_retry_delay(cluster):
    failures = [refusal(503) for _ in range(8)]
    cluster.start(*failures, page(version="5"), Watch(event("ADDED", "a", "6"), then="break"), page())
    await cluster.expect(["list"], ["ADDED", "a"])
    cluster.script.append(Watch(event("ADDED", "b", "7")))
    await cluster.expect(["ADDED", "b"])
    assert cluster.delays[8] <= 0.4


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b'{"items": 1}',
        b'{"metadata": {}, "items": [1, ]}',
        b'{"metadata": {"continue": "\xff"}}',
        b'{"later":' + b"[" * 90_000,
    ],
)
async def test_malformed_list_is_retried(cluster, body):
    cluster.start(web.Response(body=body), page("a"))
    await cluster.expect(["list", "a"])
    assert len(cluster.delays) == 1


@pytest.mark.parametrize(
    "line", [b"<html>\n", b'{"type": 1}\n', b'{"type": "ADDED", "object": {"metadata": 1}}\n', b'{"type": "\xff"}\n']
)
async def test_malformed_event_triggers_new_list(cluster, line):
    cluster.start(page("a"), Watch(line, then="stay"), page("b"))
    await cluster.expect(["list", "a"], ["list", "b"])


async def test_deeply_nested_event_does_not_end_watch(cluster):
    levels = b'{"f:a": ' * 20_000 + b"{}" + b"}" * 20_000
    deep = b'{"type": "ADDED", "object": {"metadata": {"name": "b", "managedFields": ' + levels + b"}}}\n"
    cluster.start(page("a"), Watch(deep, event("ADDED", "c", "7"), then="stay"))
    await cluster.expect(["list", "a"], ["ADDED", "b"], ["ADDED", "c"])


async def test_repeated_watch_errors_delay_new_lists(cluster):
    repeated = [answer for _ in range(6) for answer in (page(), Watch(error(500)))]
    cluster.start(*repeated, page("a"))
    await cluster.expect(*([["list"]] * 6), ["list", "a"])
    assert cluster.delays[0] <= 0.4
    assert cluster.delays[5] > 1


async def test_watches_that_end_immediately_are_resumed_with_delay(cluster):
    cluster.start(page(version="5"), *(Watch() for _ in range(6)), Watch(event("ADDED", "a", "6")))
    await cluster.expect(["list"], ["ADDED", "a"])
    assert len(cluster.delays) >= 5


async def test_silence_is_measured_only_without_connection(cluster):
    assert cluster.reflector.measure_silence_seconds() > 0
    assert not cluster.reflector.synced.is_set()
    cluster.start(page(), Watch(event("ADDED", "a", "2"), then="stay"))
    await cluster.expect(["list"], ["ADDED", "a"])
    assert cluster.reflector.measure_silence_seconds() == 0


async def test_lost_connection_counts_as_silence_until_reconnected(cluster):
    silent = []
    sleep = module.asyncio.sleep

    async def observe(seconds):
        await sleep(seconds)
        silent.append(cluster.reflector.measure_silence_seconds())

    module.asyncio.sleep = observe
    cluster.start(page(), Watch(event("ADDED", "a", "2"), then="break"), refusal(503))
    await cluster.expect(["list"], ["ADDED", "a"])
    cluster.script.append(Watch(event("ADDED", "b", "3"), then="stay"))
    await cluster.expect(["ADDED", "b"])
    assert silent
    assert all(seconds > 0 for seconds in silent)
    assert cluster.reflector.measure_silence_seconds() == 0


async def test_rejected_list_raises_error_with_server_message(cluster):
    cluster.script.append(refusal(403))
    with pytest.raises(ApiError, match="refused with 403") as raised:
        await list_all(cluster.api, PATH, Pod)
    assert raised.value.status == 403


async def test_unreadable_object_is_skipped_in_list(cluster, caplog):
    items = [pod("a"), {"metadata": {"name": "bad", "uid": "u", "labels": 7}}, 7, pod("b")]
    answer = {"metadata": {"resourceVersion": "1"}, "items": items}
    cluster.start(web.json_response(answer), Watch(event("ADDED", "c", "2"), then="stay"))
    await cluster.expect(["list", "a", "b"], ["ADDED", "c"])
    assert cluster.reflector.unreadable == 2
    assert len([each for each in caplog.records if "cannot read" in each.message]) == 2
    assert [json.loads(text) for _, text in cluster.unreadable] == items[1:3]


async def test_unreadable_change_is_skipped_without_ending_watch(cluster):
    bad = json.dumps({"type": "MODIFIED", "object": {"metadata": {"name": "bad", "resourceVersion": "5"}, "spec": 7}})
    lines = (bad.encode() + b"\n") * 3
    cluster.start(page("a"), Watch(lines, event("ADDED", "b", "6"), then="stay"))
    await cluster.expect(["list", "a"], ["ADDED", "b"])
    assert cluster.reflector.unreadable == 1
    assert [kind for kind, _ in cluster.unreadable] == ["MODIFIED"] * 3


async def test_failing_event_handler_does_not_end_watch(cluster):
    cluster.fail_on = "bad"
    cluster.start(page("a"), Watch(event("ADDED", "bad", "2"), event("ADDED", "b", "3"), then="stay"))
    await cluster.expect(["list", "a"], ["ADDED", "b"])
    assert cluster.reflector.unreadable == 1


async def test_relist_during_event_processing_is_not_lost(cluster):
    cluster.relist_on = "a"
    both = event("ADDED", "a", "6") + event("ADDED", "b", "7")
    cluster.start(page(version="5"), Watch(both, then="stay"), page("a", "b", version="9"))
    await cluster.expect(["list"], ["ADDED", "a"], ["ADDED", "b"], ["list", "a", "b"])


async def test_concurrent_relist_requests_cause_one_list(cluster):
    cluster.start(page(version="5"), Watch(then="stay"), page("a", version="9"))
    await cluster.expect(["list"])
    for _ in range(3):
        cluster.reflector.relist()
        await asyncio.sleep(0)
    await cluster.expect(["list", "a"])


async def test_list_started_before_relist_request_is_discarded(cluster, monkeypatch):
    real, asked = module.list_all, []

    async def list_and_ask(*args, **options):
        listed = await real(*args, **options)
        if not asked:
            asked.append(cluster.reflector.relist())
        return listed

    monkeypatch.setattr(module, "list_all", list_and_ask)
    # The second one may be ended before its answer.
    cluster.start(page("old", version="5"), page("new", version="8"), page("new", version="9"))
    await cluster.expect(["list", "new"])
