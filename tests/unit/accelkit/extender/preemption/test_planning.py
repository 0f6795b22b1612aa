from __future__ import annotations

from preempting_cluster import PreemptingCluster

from accelkit.extender.preemption import planning
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.kube.disruptions.evictions import list_evictable_pods
from accelkit.placement.policies import Policy


async def test_others_have_their_turn_after_each_pod_that_is_compared_with_budgets(monkeypatch):
    cluster, rests = PreemptingCluster("n"), []

    class Turns(planning.Turns):
        async def rest(self):
            rests.append(self)

    monkeypatch.setattr(planning, "Turns", Turns)
    for number in range(8):
        cluster.pod(f"low{number}", 2, 1, "ab"[number % 2])
    cluster.pod("high", 8, 10)
    planner = planning.Planner(cluster.ledger, cluster.feed, Policy.BINPACK)
    pods = await list_evictable_pods(cluster.api, "n")
    plan = await planner.check(cluster.feed.pending["uid-high"], "n", pods, DisruptionBudgets())
    assert len(plan.victims) == 4
    # And after each question of the search.
    assert len(rests) >= len(pods) + 8
