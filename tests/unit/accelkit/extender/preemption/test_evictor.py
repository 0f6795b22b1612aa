from datetime import timedelta

import msgspec
import pytest
from evicting_cluster import Evicting

from accelkit.errors import ApiError
from accelkit.extender.preemption import planning
from accelkit.extender.preemption.claims import FREE_SECONDS, LEAVING_SECONDS
from accelkit.extender.preemption.pace import MOST_EVICTIONS, RETRY_SECONDS, Pace
from accelkit.extender.preemption.refusals import DELAY_SECONDS, KEPT_SECONDS
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.kube.disruptions.evictions import list_evictable_pods
from accelkit.ledger.holding import ShareStage
from accelkit.model.object_meta import LEAVING_MARGIN_SECONDS, MOST_LEAVING_SECONDS
from accelkit.model.pod import Pod
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import Policy


@pytest.fixture
def cluster():
    made = Evicting()
    made.pod("low", 5, 1, "a")
    made.pod("middle", 5, 2, "b")
    return made


async def test_pod_of_lowest_priority_is_evicted_and_its_card_is_claimed(cluster):
    high = cluster.pod("high", 5, 10)
    assert await cluster.look(high) == ["low"]
    assert cluster.ledger.find_holding("uid-high").stage is ShareStage.CLAIMED
    # Nobody else gets it, the pod itself does.
    other = cluster.pod("other", 5, 1)
    assert await cluster.filter(other) == []
    assert await cluster.filter(high) == ["n"]
    with pytest.raises(MisfitError):
        cluster.reserve("other")
    assert cluster.reserve("high").containers["c"][0].card == "a"
    assert cluster.ledger.find_holding("uid-high").stage is ShareStage.RESERVED
    assert cluster.counter.labels("evicted")._value.get() == 1
    reasons = {each.body["reason"]: each.body for each in cluster.api.done if each.path.endswith("/events")}
    assert set(reasons) == {"Preempted", "Preempting"}
    # Whoever reads the events of one namespace learns no names of another.
    assert "d/" not in reasons["Preempted"]["message"] + reasons["Preempting"]["message"]
    assert "1 pod of lower priority" in reasons["Preempting"]["message"]


async def test_cards_still_held_by_evicted_pod_are_not_assigned(cluster):
    cluster.lingering = True
    high = cluster.pod("high", 5, 10)
    assert await cluster.look(high) == ["low"]
    assert await cluster.filter(high) == []
    with pytest.raises(MisfitError):
        cluster.reserve("high")
    assert cluster.ledger.find_holding("uid-high").stage is ShareStage.CLAIMED
    # Nobody else is evicted for it meanwhile.
    assert await cluster.look(high, seconds=600) == ["low"]
    cluster.leave("low")
    assert await cluster.filter(high) == ["n"]


@pytest.mark.parametrize(
    "of",
    [
        {"priority": 1},
        {"spec": {"preemptionPolicy": "Never"}},
        {"status": {"nominatedNodeName": "n"}},
        {"status": {"conditions": []}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"memory": 9},
    ],
)
async def test_no_pod_is_evicted_for_ineligible_pod(cluster, of):
    options = {"priority": 10, "memory": 5} | of
    assert await cluster.look(cluster.pod("high", options.pop("memory"), options.pop("priority"), **options)) == []
    assert cluster.ledger.find_holding("uid-high") is None


async def test_replica_without_lease_evicts_no_pod(cluster):
    cluster.leads = False
    assert await cluster.look(cluster.pod("high", 5, 10)) == []
    cluster.leads = True
    await cluster.evictor.run_once()
    assert cluster.evicted == ["low"]


async def test_no_pod_is_evicted_before_delay_for_kube_scheduler(cluster):
    high = cluster.pod("high", 5, 10)
    assert await cluster.look(high, seconds=DELAY_SECONDS / 2) == []
    assert await cluster.look(high, seconds=DELAY_SECONDS / 2) == ["low"]


async def test_expired_refusal_of_kube_scheduler_causes_no_eviction(cluster):
    assert await cluster.look(cluster.pod("high", 5, 10), seconds=KEPT_SECONDS + 1) == []


NODE = {"ownerReferences": [{"kind": "Node", "controller": True}]}


@pytest.mark.parametrize(
    ("annotations", "evicted"), [({}, "low"), ({"kubernetes.io/config.mirror": "x"}, "middle")], ids=["owner", "static"]
)
async def test_static_pods_are_never_evicted_but_pods_with_node_owner_are(annotations, evicted):
    cluster = Evicting()
    cluster.pod("low", 5, 1, "a", annotations=annotations, metadata=NODE)
    cluster.pod("middle", 5, 2, "b")
    assert await cluster.look(cluster.pod("high", 5, 10)) == [evicted]


async def test_disruption_budget_limits_evictions():
    cluster = Evicting("n", "m")
    for number in range(2):
        cluster.pod(f"x{number}", 4, 1, "a", labels={"app": "x"})
        cluster.pod(f"y{number}", 4, 2, "a", node="m")
        cluster.pod(f"on-b{number}", 8, 20, "b", node="nm"[number])
    cluster.budget(1, {"app": "x"})
    assert await cluster.look(cluster.pod("high", 8, 10)) == ["y0", "y1"]


async def test_pod_covered_by_two_disruption_budgets_is_not_evicted(cluster):
    cluster.pod("low", 5, 1, "a", labels={"app": "x"})
    cluster.budget(1, {"app": "x"})
    cluster.budget(1, {})
    assert await cluster.look(cluster.pod("high", 5, 10)) == ["middle"]


async def test_no_pod_is_evicted_while_another_pod_terminates(cluster):
    cluster.pod("middle", 5, 2, "b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert await cluster.look(cluster.pod("high", 5, 10)) == []


@pytest.mark.parametrize(("grace", "waits"), [(30, 30 + LEAVING_MARGIN_SECONDS), (86400, MOST_LEAVING_SECONDS)])
async def test_terminating_pod_past_deadline_is_ignored_and_not_evicted(cluster, grace, waits):
    end = (cluster.date + timedelta(seconds=grace)).isoformat()
    deleted = {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace, "finalizers": ["tenant.example/stays"]}
    cluster.pod("low", 5, 1, "a", metadata=deleted)
    high = cluster.pod("high", 5, 10)
    cluster.date += timedelta(seconds=waits - 1)
    assert await cluster.look(high) == []
    cluster.date += timedelta(seconds=1)
    assert await cluster.look(high, seconds=RETRY_SECONDS) == ["middle"]


@pytest.mark.parametrize("status", [429, 409, 500])
async def test_refused_dry_run_evicts_no_pod_and_claims_no_card(cluster, status):
    cluster.api.fail(ApiError("no", status=status), "POST", "/low/eviction")
    assert await cluster.look(cluster.pod("high", 5, 10)) == []
    assert cluster.ledger.find_holding("uid-high") is None


async def test_claim_is_released_if_one_of_several_evictions_fails():
    cluster = Evicting()
    for number in range(2):
        cluster.pod(f"p{number}", 4, 1, "a")
    cluster.pod("q", 8, 20, "b")
    failed = []

    def refuse(request):
        if request.path.endswith("/p1/eviction") and "dryRun" not in request.body["deleteOptions"] and not failed:
            failed.append(request)
            raise ApiError("no", status=429)

    cluster.api.before.append(refuse)
    assert await cluster.look(cluster.pod("high", 8, 10)) == ["p0"]
    assert cluster.ledger.find_holding("uid-high") is None


async def test_bound_or_replaced_pod_causes_no_eviction(cluster):
    high = cluster.pod("high", 5, 10)
    cluster.api.objects["/api/v1/namespaces/d/pods/high"]["spec"]["nodeName"] = "elsewhere"
    assert await cluster.look(high) == []
    cluster.api.objects["/api/v1/namespaces/d/pods/high"]["metadata"]["uid"] = "another"
    assert await cluster.look(high, seconds=RETRY_SECONDS) == []
    assert await cluster.look(cluster.pod("high", 5, 10), seconds=RETRY_SECONDS) == ["low"]


async def test_claim_ends_when_its_pod_is_deleted(cluster):
    await cluster.look(cluster.pod("high", 5, 10))
    cluster.leave("high")
    await cluster.evictor.run_once()
    assert cluster.ledger.find_holding("uid-high") is None
    assert await cluster.filter(cluster.pod("other", 5, 1)) == ["n"]


@pytest.mark.parametrize(("lingering", "seconds"), [(False, FREE_SECONDS), (True, LEAVING_SECONDS)])
async def test_claim_expires_after_maximum_time(cluster, lingering, seconds):
    cluster.lingering = lingering
    await cluster.look(cluster.pod("high", 5, 10))
    await cluster.evictor.run_once()
    cluster.now += seconds
    await cluster.evictor.run_once()
    assert cluster.ledger.find_holding("uid-high") is not None
    cluster.now += 1
    await cluster.evictor.run_once()
    assert cluster.ledger.find_holding("uid-high") is None


async def test_claim_ends_when_lease_is_lost(cluster):
    await cluster.look(cluster.pod("high", 5, 10))
    cluster.leads = False
    await cluster.evictor.run_once()
    assert cluster.ledger.find_holding("uid-high") is None


async def test_pod_list_does_not_release_or_query_claim(cluster):
    await cluster.look(cluster.pod("high", 5, 10))
    pods = [msgspec.convert(each, Pod) for path, each in cluster.api.objects.items() if "/pods/" in path]
    young = cluster.feed.replace_pods(pods)
    assert [held.stage for held in young] == [ShareStage.CLAIMED]
    assert cluster.ledger.find_holding("uid-high") is not None


def test_eviction_rate_is_limited():
    now = [0.0]
    pace = Pace(lambda: now[0])
    assert pace.may_evict(MOST_EVICTIONS + 1)
    for _ in range(MOST_EVICTIONS):
        pace.note_evicted()
    assert not pace.may_evict(1)
    now[0] = 61.0
    assert pace.may_evict(1)
    pauses = []
    for _ in range(3):
        began = now[0]
        pace.note_tried("u", evicted=True)
        while not pace.may_try("u"):
            now[0] += 1
        pauses.append(now[0] - began)
    assert pauses == [120.0, 240.0, 480.0]


async def test_planner_yields_event_loop_after_each_budget_comparison(monkeypatch):
    cluster, rests = Evicting(), []

    class EventLoopShare(planning.EventLoopShare):
        async def rest(self):
            rests.append(self)

    monkeypatch.setattr(planning, "EventLoopShare", EventLoopShare)
    for number in range(8):
        cluster.pod(f"low{number}", 2, 1, "ab"[number % 2])
    cluster.pod("high", 8, 10)
    planner = planning.Planner(cluster.ledger, cluster.feed, Policy.BINPACK)
    pods = await list_evictable_pods(cluster.api, "n")
    plan = await planner.check(cluster.feed.pending["uid-high"], "n", pods, DisruptionBudgets())
    assert len(plan.victims) == 4
    # And after each question of the search.
    assert len(rests) >= len(pods) + 8
