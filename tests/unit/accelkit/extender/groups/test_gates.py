from types import SimpleNamespace

import pytest
from fake_api.server import FakeApi
from support.pods import make_ref

from accelkit.errors import ApiError
from accelkit.extender.groups.gates import GateLifter
from accelkit.extender.groups.group_index import Member
from accelkit.kube.paths import PODS
from accelkit.model.host_amounts import NOTHING
from accelkit.model.pod import PodRef


@pytest.fixture
def world():
    api, clock = FakeApi(), SimpleNamespace(now=100.0)
    members = []
    for name in "ab":
        metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}"}
        api.store(PODS, {"metadata": metadata, "spec": {"schedulingGates": [{"name": "accelkit.io/pod-group"}]}})
        members.append(Member(make_ref(name), "", 0, (), None, NOTHING, b""))
    lifter = GateLifter(api, lambda _: "n", lambda: clock.now)
    return SimpleNamespace(api=api, clock=clock, members=members, lifter=lifter)


async def test_refused_gate_removal_is_retried_with_backoff_and_rarely_logged(world, caplog):
    world.api.fail(ApiError("no", status=403), "PATCH", "/pods/a", times=None)
    tried = []
    for second in range(100):
        world.clock.now, before = 100.0 + second, len(world.api.requests)
        await world.lifter.lift(world.members)
        if any("/pods/a/" in request.path for request in world.api.requests[before:]):
            tried.append(second)
    assert tried == [0, 1, 3, 7, 15, 31, 61, 91]
    # The other pod was lifted once, and is not tried again.
    assert sum("/pods/b" in request.path for request in world.api.requests) == 2
    told = [record.msg.values for record in caplog.records]
    assert told == [{"pod": "d/a", "uid": "uid-a", "error": "no"}] * 2


async def test_discarded_pod_is_retried_immediately(world):
    world.api.fail(ApiError("no", status=403), "PATCH")
    await world.lifter.lift(world.members[:1])
    world.lifter.discard("uid-a")
    await world.lifter.lift(world.members[:1])
    assert not world.api.objects["/api/v1/namespaces/d/pods/a"]["spec"].get("schedulingGates")


async def test_replaced_or_deleted_pod_is_ignored_without_log(world, caplog):
    world.members[0] = Member(PodRef("d", "a", "another"), "", 0, (), None, NOTHING, b"")
    del world.api.objects["/api/v1/namespaces/d/pods/b"]
    await world.lifter.lift(world.members)
    assert not caplog.records
