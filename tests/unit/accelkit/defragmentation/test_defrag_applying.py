"""`accelkit defrag --apply` holds the cards first, evicts, and says what became of each pod."""

import msgspec
import pytest
from planned_cluster import PlannedCluster

from accelkit.defragmentation import applying
from accelkit.defragmentation.applying import PlanApplier
from accelkit.errors import ApiError
from accelkit.model.hold import HOLD_CONDITION, Hold

HIGH = "/api/v1/namespaces/d/pods/high"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(applying, "_POLL_SECONDS", 0)
    monkeypatch.setattr(applying, "_PROGRESS_SECONDS", 0)


class World(PlannedCluster):
    """One card that `p` has, and `high` that waits for it; what is said and done is kept in its order."""

    def __init__(self):
        super().__init__()
        self.said, self.deeds, self.binds = [], [], True
        self.node("n", 1)
        self.pod("p", 5, 1, card="n-0")
        self.pod("high", 5, 5)
        self.api.reviews["/api/v1/namespaces/d/pods/p/eviction"] = self.evict

    def evict(self, request):
        options = request.body["deleteOptions"]
        assert options["preconditions"] == {"uid": "uid-p"}
        self.deeds.append("tried" if "dryRun" in options else "evicted")
        if "dryRun" not in options:
            del self.api.objects["/api/v1/namespaces/d/pods/p"]
            if self.binds:
                self.high["spec"]["nodeName"] = "n"
        return {}

    @property
    def high(self):
        return self.api.objects[HIGH]

    @property
    def hold(self):
        held = [each for each in self.high["status"]["conditions"] if each["type"] == HOLD_CONDITION]
        return msgspec.json.decode(held[0]["message"], type=Hold) if held else None

    async def apply(self, wait=60):
        def note(request):
            if request.method == "PATCH":
                self.deeds.append("held" if self.hold else "ended")

        plan = await self.plan()
        self.api.after.append(note)
        return await PlanApplier(self.api, self.said.append, wait).apply(plan)


@pytest.fixture
def world():
    return World()


async def test_cards_are_held_from_eviction_until_pod_is_bound(world):
    seen = []
    world.api.before.append(lambda request: seen.append(world.hold) if request.path.endswith("/eviction") else None)
    assert await world.apply()
    assert world.deeds == ["tried", "held", "evicted", "ended"]
    assert seen[0] is None
    assert (seen[1].node, seen[1].evicted) == ("n", ("uid-p",))
    assert world.said == ["evicted d/p for d/high", "d/high is bound to n"]
    assert [each["type"] for each in world.high["status"]["conditions"]] == ["PodScheduled"]


async def test_pod_not_bound_in_time_is_reported_with_scheduler_message(world):
    world.binds = False
    world.high["status"]["conditions"][0]["message"] = "0/1 nodes are available"
    assert not await world.apply(wait=0)
    assert world.said[-1] == "d/high is not bound after 0 s: 0/1 nodes are available"
    assert world.hold is None


async def test_pod_not_bound_in_time_is_reported_with_pod_that_has_not_ended(world):
    world.api.reviews["/api/v1/namespaces/d/pods/p/eviction"] = lambda _: {}
    assert not await world.apply(wait=0)
    assert world.said[-1] == "d/high is not bound after 0 s: d/p has not ended"


@pytest.mark.parametrize("uid", [None, "another"])
async def test_deletion_of_waiting_pod_ends_wait(world, uid):

    def delete(request):
        if world.deeds[-1:] == ["evicted"] and request.method == "GET":
            if uid is None:
                world.api.objects.pop(HIGH, None)
            else:
                world.high["metadata"]["uid"] = uid

    world.binds = False
    world.api.before.append(delete)
    assert not await world.apply()
    assert world.said[-1] == "d/high was deleted before it was bound"


async def test_progress_is_reported_and_unavailable_api_server_is_retried(world):
    world.binds = False

    def bind(request):
        if request.method == "GET" and request.path == HIGH and any("waiting" in line for line in world.said):
            world.high["spec"]["nodeName"] = "n"

    world.api.before.append(bind)
    plan = await world.plan()
    world.api.fail(ApiError("away", status=503), "GET", HIGH)
    assert await PlanApplier(world.api, world.said.append, 60).apply(plan)
    assert world.said[1] == "waiting for d/high: 60 s remaining"


async def test_refused_eviction_names_disruption_budget_and_ends_hold(world):
    refusal = ApiError("no. The disruption budget web needs 1 healthy pods", status=429)

    def refuse(request):
        if "dryRun" not in request.body["deleteOptions"]:
            raise refusal
        return {}

    world.api.reviews["/api/v1/namespaces/d/pods/p/eviction"] = refuse
    with pytest.raises(ApiError, match=r"refused by a PodDisruptionBudget: no\. The disruption budget web needs"):
        await world.apply()
    assert world.deeds == ["held", "ended"]


@pytest.mark.parametrize("error", [ApiError("no right", status=403), ApiError("the uid is x", status=409)])
async def test_no_pod_is_evicted_if_cards_cannot_be_held(world, error):
    world.api.fail(error, "PATCH", HIGH)
    with pytest.raises(ApiError, match="cannot hold cards of node n for pod d/high"):
        await world.apply()
    assert world.deeds == ["tried"]
