"""What an upgrade writes to its node, and whom it evicts, on an API server in memory."""

from functools import partial
from http import HTTPStatus

import pytest
from driver_nodes import build_card, write_node
from fake_api.server import FakeApi

from accelkit.enablement.drivers.upgrading.cordon import take_step
from accelkit.enablement.drivers.upgrading.drain import drain_cards
from accelkit.enablement.drivers.upgrading.record import Phase, advance, begin, end
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.paths import NODES, PODS, build_node_path
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

A = build_node_path("a")
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


def cluster(**changed):
    api = FakeApi()
    api.store(NODES, write_node("a", cards=(build_card(),), **changed))
    api.objects[A]["metadata"]["resourceVersion"] = "7"
    return api


async def step(api, decide, **given):
    return await take_step(api, "a", decide, **given)


def is_cordoned(api):
    return api.objects[A].get("spec", {}).get("unschedulable", False)


async def test_record_and_cordon_are_written_and_removed_together():
    api = cluster()
    before = api.objects[A]["metadata"]["annotations"].copy()
    _, began = await step(api, partial(begin, target="550", now=1.0))
    assert is_cordoned(api)
    assert api.writes[0].body["metadata"]["resourceVersion"] == "7"
    await step(api, lambda node: advance(node, began.record, Phase.UPGRADE, 2.0))
    await step(api, partial(end, now=3.0))
    assert not is_cordoned(api)
    assert api.objects[A]["metadata"]["annotations"] == before
    assert len(api.writes) == 3


async def test_node_cordoned_during_write_conflict_remains_cordoned():
    api = cluster()

    def cordon(request):
        if request.method == "PATCH" and len(api.writes) == 1:
            api.objects[A]["spec"] = {"unschedulable": True}
            api.objects[A]["metadata"]["resourceVersion"] = "8"

    api.before.append(cordon)
    _, began = await step(api, partial(begin, target="550", now=1.0))
    assert not began.record.ours
    await step(api, partial(end, now=2.0))
    assert is_cordoned(api)


async def test_check_mode_reports_change_without_writing():
    api = cluster()
    _, would = await step(api, partial(begin, target="550", now=1.0), check=True)
    assert (would.changed, api.writes) == (True, [])


async def test_refused_upgrade_error_contains_next_step():
    api = cluster(ready="False")
    with pytest.raises(ServiceError, match=r"node a: the node is not ready.*kubectl describe node"):
        await step(api, partial(begin, target="550", now=1.0))
    assert DRIVER_UPGRADE_ANNOTATION not in api.objects[A]["metadata"]["annotations"]


def add_pod(api, name, *, priority=0, resource="nvidia.com/gpu", owner="ReplicaSet"):
    owners = [{"kind": owner, "controller": True}]
    pod = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
        "spec": {
            "nodeName": "a",
            "priority": priority,
            "containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}],
        },
        "status": {"phase": "Running"},
    }
    return api.store(PODS, pod)


class Evictions:
    """Evicts as the API server does: a pod is gone at once, or its budget says no, so many times."""

    def __init__(self, api, refusals=None):
        self.api, self.refusals, self.asked, self.time = api, refusals or {}, [], 0.0
        api.before.append(self._see)

    def _see(self, request):
        if not request.path.endswith("/eviction"):
            return
        name = request.body["metadata"]["name"]
        assert request.body["deleteOptions"]["preconditions"] == {"uid": name}
        self.asked.append(name)
        if self.refusals.get(name, 0) > 0:
            self.refusals[name] -= 1
            raise ApiError(BUDGET, status=HTTPStatus.TOO_MANY_REQUESTS, reason="TooManyRequests")
        del self.api.objects[f"/api/v1/namespaces/default/pods/{name}"]
        raise ApiError("gone meanwhile", status=HTTPStatus.NOT_FOUND)

    async def sleep(self, seconds):
        self.time += seconds

    async def drain(self, **given):
        return await drain_cards(
            self.api, "a", "nvidia", seconds=10, sleep=self.sleep, clock=lambda: self.time, **given
        )


async def test_drain_evicts_by_priority_and_retries_disruption_budgets():
    api = cluster()
    for name, priority in (("high", 10), ("low", -1), ("middle", 0)):
        add_pod(api, name, priority=priority)
    add_pod(api, "cpu", priority=-9, resource="example.com/other")
    add_pod(api, "agent", priority=-9, owner="DaemonSet")
    evictions = Evictions(api, {"low": 2})
    drained = await evictions.drain()
    assert evictions.asked == ["low", "low", "low", "middle", "high"]
    assert drained.evicted == ("default/low", "default/middle", "default/high")
    assert drained.staying == ("default/agent",)


async def test_drain_timeout_names_remaining_pods_and_disruption_budget():
    api = cluster()
    add_pod(api, "low", priority=-1)
    add_pod(api, "high", priority=1)
    evictions = Evictions(api, {"low": 99})
    with pytest.raises(ServiceError) as raised:
        await evictions.drain()
    text = str(raised.value)
    assert "default/low; 1 of higher priority" in text
    assert BUDGET in text
    assert "PodDisruptionBudgets" in text
    assert set(evictions.asked) == {"low"}
    assert evictions.time <= 12


async def test_check_mode_lists_evictions_in_order():
    api = cluster()
    add_pod(api, "high", priority=10)
    add_pod(api, "low", priority=-1)
    evictions = Evictions(api)
    assert (await evictions.drain(check=True)).evicted == ("default/low", "default/high")
    assert api.writes == []


async def test_drain_does_not_retry_missing_permission():
    api = cluster()
    add_pod(api, "low")
    api.fail(ApiError("no", status=HTTPStatus.FORBIDDEN), "POST", "/eviction", times=None)

    async def sleep(_seconds):
        pytest.fail("it waited")

    with pytest.raises(ApiError, match="no"):
        await drain_cards(api, "a", "nvidia", seconds=10, sleep=sleep)
