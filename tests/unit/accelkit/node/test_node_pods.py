from __future__ import annotations

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.paths import PODS
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.pod import Pod
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import load_dialect

ASSIGNMENT = Assignment({"c": (Share("a", 4),)})


def pod(name, *, text=None, phase="Running", created="2024-01-01T00:00:00Z", node="n"):
    text = encode_assignment(ASSIGNMENT) if text is None else text
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "creationTimestamp": created}
    return {
        "metadata": metadata | {"annotations": {ASSIGNMENT_ANNOTATION: text} if text else {}},
        "spec": {"nodeName": node, "initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }


@pytest.fixture
def api():
    return FakeApi()


def show(api, *pods):
    """Have the API server list these pods of the node, and another node's."""
    api.objects.clear()
    for each in (*pods, pod("elsewhere", node="m")):
        api.store(PODS, each)


@pytest.fixture
def pods(api):
    return NodePods(api, "n", load_dialect("native"))


def names(pods):
    return [each.name for each in pods.list_assigned()]


async def test_this_nodes_pods_are_read_with_their_assignments(api, pods):
    show(api, pod("p"))
    await pods.refresh()
    (found,) = pods.list_assigned()
    assert (found.uid, found.containers, found.assignment) == ("uid-p", ("i", "c"), ASSIGNMENT)
    assert found.order == ("2024-01-01T00:00:00Z", "p")


@pytest.mark.parametrize("wrong", [pod("p", text=""), pod("p", text="garbage"), pod("p", phase="Failed")])
async def test_pods_without_a_readable_assignment_or_ended_are_left_out(api, pods, wrong):
    show(api, wrong, pod("q"))
    await pods.refresh()
    assert names(pods) == ["q"]


@pytest.mark.parametrize("unreadable", [False, True])
async def test_a_list_that_fails_leaves_what_the_watch_has_shown(api, pods, unreadable):
    show(api, pod("p"))
    await pods.refresh()
    if unreadable:
        api.documents[PODS] = {"items": [{"metadata": 1}]}
    else:
        api.fail(ApiError("away"))
    await pods.refresh()
    assert names(pods) == ["p"]


@pytest.mark.parametrize(("kind", "changes"), [("DELETED", {}), ("MODIFIED", {"phase": "Succeeded"})])
async def test_a_pod_that_is_gone_or_has_ended_waits_for_nothing(api, pods, kind, changes):
    show(api, pod("p"), pod("q"))
    await pods.refresh()
    pods._event(kind, msgspec.convert(pod("p", **changes), Pod))
    assert names(pods) == ["q"]


async def test_a_pod_that_ends_while_the_list_is_read_stays_ended(pods, api):
    pods._event("ADDED", msgspec.convert(pod("p"), Pod))
    show(api, pod("p"), pod("q"))
    api.after.append(lambda _: pods._event("DELETED", msgspec.convert(pod("p"), Pod)))
    await pods.refresh()
    assert names(pods) == ["q"]


async def test_the_units_and_the_admission_of_a_pod_are_read(api, pods):
    started = pod("p")
    started["spec"]["containers"][0]["resources"] = {"limits": {"accelkit.io/memory": "4", "cpu": "1"}}
    started["spec"]["initContainers"][0]["resources"] = {"limits": {"accelkit.io/memory": "-1"}}
    started["status"]["startTime"] = "2024-01-01T00:00:00Z"
    show(api, started, pod("q"))
    await pods.refresh()
    assert [(each.units, each.admitted) for each in pods.list_assigned()] == [({"c": 4}, True), ({}, False)]
