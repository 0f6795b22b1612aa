from __future__ import annotations

import json

import msgspec
import pytest

from accelkit.errors import ApiError
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.pod import Pod
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import load_dialect

ASSIGNMENT = Assignment({"c": (Share("a", 4),)})


class FakeApi:
    def __init__(self):
        self.listed = []
        self.query = None

    async def get(self, path, *, query):
        self.query = (path, query["fieldSelector"])
        if isinstance(self.listed, Exception):
            raise self.listed
        return json.dumps({"metadata": {}, "items": self.listed}).encode()


def pod(name, *, text=None, phase="Running", created="2024-01-01T00:00:00Z"):
    text = encode_assignment(ASSIGNMENT) if text is None else text
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "creationTimestamp": created}
    return {
        "metadata": metadata | {"annotations": {ASSIGNMENT_ANNOTATION: text} if text else {}},
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }


@pytest.fixture
def api():
    return FakeApi()


@pytest.fixture
def pods(api):
    return NodePods(api, "n", load_dialect("native"))


def names(pods):
    return [each.name for each in pods.assigned()]


async def test_this_nodes_pods_are_read_with_their_assignments(api, pods):
    api.listed = [pod("p")]
    await pods.refresh()
    (found,) = pods.assigned()
    assert (found.uid, found.containers, found.assignment) == ("uid-p", ("i", "c"), ASSIGNMENT)
    assert found.order == ("2024-01-01T00:00:00Z", "p")
    assert api.query == ("/api/v1/pods", "spec.nodeName=n")


@pytest.mark.parametrize("wrong", [pod("p", text=""), pod("p", text="garbage"), pod("p", phase="Failed")])
async def test_pods_without_a_readable_assignment_or_ended_are_left_out(api, pods, wrong):
    api.listed = [wrong, pod("q")]
    await pods.refresh()
    assert names(pods) == ["q"]


@pytest.mark.parametrize("answer", [ApiError("away"), [{"metadata": 1}]])
async def test_a_list_that_fails_leaves_what_the_watch_has_shown(api, pods, answer):
    api.listed = [pod("p")]
    await pods.refresh()
    api.listed = answer
    await pods.refresh()
    assert names(pods) == ["p"]


@pytest.mark.parametrize(("kind", "changes"), [("DELETED", {}), ("MODIFIED", {"phase": "Succeeded"})])
async def test_a_pod_that_is_gone_or_has_ended_waits_for_nothing(api, pods, kind, changes):
    api.listed = [pod("p"), pod("q")]
    await pods.refresh()
    pods._event(kind, msgspec.convert(pod("p", **changes), Pod))
    assert names(pods) == ["q"]


async def test_a_pod_that_ends_while_the_list_is_read_stays_ended(pods, api, monkeypatch):
    pods._event("ADDED", msgspec.convert(pod("p"), Pod))
    api.listed = [pod("p"), pod("q")]
    answer = api.get

    async def slow(path, *, query):
        stale = await answer(path, query=query)
        pods._event("DELETED", msgspec.convert(pod("p"), Pod))
        return stale

    monkeypatch.setattr(api, "get", slow)
    await pods.refresh()
    assert names(pods) == ["q"]


async def test_the_units_and_the_admission_of_a_pod_are_read(api, pods):
    started = pod("p")
    started["spec"]["containers"][0]["resources"] = {"limits": {"accelkit.io/memory": "4", "cpu": "1"}}
    started["spec"]["initContainers"][0]["resources"] = {"limits": {"accelkit.io/memory": "-1"}}
    started["status"]["startTime"] = "2024-01-01T00:00:00Z"
    api.listed = [started, pod("q")]
    await pods.refresh()
    assert [(each.units, each.admitted) for each in pods.assigned()] == [({"c": 4}, True), ({}, False)]
