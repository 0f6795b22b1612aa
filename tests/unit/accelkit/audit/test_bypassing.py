"""Which pods are said to have been bound without the extender during a run, on an API server in memory."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fake_api.server import FakeApi

from accelkit.audit.bypassing import find_bypassing, find_run_start
from accelkit.errors import ApiError
from accelkit.kube.paths import PODS, build_leases_path

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = "2026-01-01T11:59:59Z", "2026-01-01T12:00:00Z"


@pytest.fixture
def api():
    return FakeApi()


def put(api, name, bound=AFTER, *, created=BEFORE, phase="Running", uid=None, event="AssignmentRecorded", **metadata):
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}] if bound else []
    given = {"name": name, "namespace": "d", "uid": name, "creationTimestamp": created, **metadata}
    status = {"phase": phase, "conditions": conditions}
    api.store(PODS, {"metadata": given, "spec": {"nodeName": "n"}, "status": status})
    of = {"kind": "Pod", "namespace": "d", "name": name, "uid": uid or name}
    named = {"name": f"{name}.1", "namespace": "d"}
    api.store("/api/v1/events", {"metadata": named, "reason": event, "involvedObject": of})


async def test_a_pod_that_was_bound_during_the_run_is_found_with_its_node(api):
    put(api, "p")
    (found,) = await find_bypassing(api, START)
    assert (found.node, found.pod, found.kind) == ("n", "d/p", "bound_past_extender")
    assert found.message == "pod d/p was bound to n without the extender during this run"


@pytest.mark.parametrize(
    "change",
    [
        {"bound": BEFORE},
        {"bound": None},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
        {"uid": "another of this name"},
        {"event": "AssignmentCorrected"},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
    ],
)
async def test_what_was_bound_before_or_has_ended_or_is_static_is_not_found(api, change):
    put(api, "p", **change)
    assert await find_bypassing(api, START) == []


async def test_a_pod_that_was_created_with_its_node_is_bound_when_it_is_created(api):
    put(api, "p", bound=None, created=AFTER)
    assert [each.pod for each in await find_bypassing(api, START)] == ["d/p"]


async def test_a_pod_is_found_once_and_one_that_is_deleted_is_not(api):
    put(api, "p")
    put(api, "q")
    again = {"metadata": {"name": "p.2", "namespace": "d"}, "reason": "AssignmentRecorded"}
    api.store("/api/v1/events", {**again, "involvedObject": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "p"}})
    del api.objects["/api/v1/namespaces/d/pods/q"]
    assert [each.pod for each in await find_bypassing(api, START)] == ["d/p"]


async def test_pods_are_listed_once_however_many_were_recorded(api):
    for number in range(20):
        put(api, f"p{number}")
    assert len(await find_bypassing(api, START)) == 20
    pages = [each for each in api.requests if each.path == PODS]
    assert len(api.requests) == len(pages) + 1
    assert {each.query["fieldSelector"] for each in pages} == {"status.phase!=Succeeded,status.phase!=Failed"}


async def test_pods_are_not_listed_where_none_was_recorded(api):
    put(api, "p", event="AssignmentCorrected")
    assert await find_bypassing(api, START) == []
    assert [each.path for each in api.requests] == ["/api/v1/events"]


async def test_the_run_began_when_its_lease_was_created(api):
    assert await find_run_start(api) is None
    lease = {"metadata": {"name": "accelkit-run", "creationTimestamp": "2026-01-01T12:00:00Z"}, "spec": {}}
    api.store(build_leases_path("kube-system"), lease)
    assert await find_run_start(api) == START


async def test_events_that_may_not_be_read_are_an_error(api):
    api.fail(ApiError("forbidden", status=403), path="/events")
    with pytest.raises(ApiError):
        await find_bypassing(api, START)
