"""Which pods are said to have been bound without the extender during a run, on an API server in memory."""

from datetime import UTC, datetime

import pytest

from accelkit.audit.bypassing import find_bypassing, find_run_start
from accelkit.errors import ApiError
from accelkit.kube.paths import PODS, build_leases_path
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = "2026-01-01T11:59:59Z", "2026-01-01T12:00:00Z"


RECORDED = encode_assignment(Assignment({"c": (Share("card-0", 1),)}, recorded=True))


def put(api, name, bound=AFTER, *, created=BEFORE, phase="Running", assignment=RECORDED, **annotations):
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}] if bound else []
    given = {"name": name, "namespace": "d", "uid": name, "creationTimestamp": created}
    noted = {**({ASSIGNMENT_ANNOTATION: assignment} if assignment else {}), **annotations}
    status = {"phase": phase, "conditions": conditions}
    api.store(PODS, {"metadata": {**given, "annotations": noted}, "spec": {"nodeName": "n"}, "status": status})


async def test_pod_bound_during_run_is_reported_with_node(api):
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
        {"assignment": None},
        {"assignment": "{"},
        {"assignment": encode_assignment(Assignment({"c": (Share("card-0", 1),)}))},
        {"kubernetes.io/config.mirror": "x"},
    ],
)
async def test_earlier_ended_and_static_pods_are_not_reported(api, change):
    put(api, "p", **change)
    assert await find_bypassing(api, START) == []


async def test_pod_created_with_node_name_counts_as_bound_at_creation(api):
    put(api, "p", bound=None, created=AFTER)
    assert [each.pod for each in await find_bypassing(api, START)] == ["d/p"]


@pytest.mark.parametrize("name", ["", "..", "bound-by-the-extender"])
async def test_events_of_tenants_are_ignored(api, name):
    """A tenant with the ClusterRole `edit` writes, changes and deletes Events of its namespace."""
    put(api, "p")
    put(api, "bound-by-the-extender", assignment=encode_assignment(Assignment({"c": (Share("card-0", 1),)})))
    of = {"kind": "Pod", "namespace": "d", "name": name, "uid": name}
    named = {"name": "forged", "namespace": "d"}
    api.store("/api/v1/events", {"metadata": named, "reason": "AssignmentRecorded", "involvedObject": of})
    assert [each.pod for each in await find_bypassing(api, START)] == ["d/p"]


async def test_pods_are_listed_once_for_any_number_of_pods(api):
    for number in range(20):
        put(api, f"p{number}")
    assert len(await find_bypassing(api, START)) == 20
    pages = [each for each in api.requests if each.path == PODS]
    assert len(api.requests) == len(pages)
    assert {each.query["fieldSelector"] for each in pages} == {"status.phase!=Succeeded,status.phase!=Failed"}


async def test_run_starts_at_creation_of_lease(api):
    assert await find_run_start(api) is None
    lease = {"metadata": {"name": "accelkit-run", "creationTimestamp": "2026-01-01T12:00:00Z"}, "spec": {}}
    api.store(build_leases_path("kube-system"), lease)
    assert await find_run_start(api) == START


async def test_forbidden_pod_list_is_error(api):
    api.fail(ApiError("forbidden", status=403), path="/pods")
    with pytest.raises(ApiError):
        await find_bypassing(api, START)
