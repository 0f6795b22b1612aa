"""The evictor in the whole service: it waits until binds may start."""

import asyncio
import json

from extender_cluster import REPLICA
from support.pods import build_pod
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.extender.preemption import evictor, refusals
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.model.assignment import Share


async def filter_stored(cluster, name):
    pod = cluster.api.objects[build_pod_path("d", name)]
    return json.loads((await cluster.ask("/filter", {"Pod": pod, "NodeNames": ["n"]}))[1]).get("NodeNames")


async def test_no_pod_is_evicted_for_cards_reserved_in_earlier_term(cluster, monkeypatch):
    monkeypatch.setattr(evictor, "_TURN_SECONDS", 0.05)
    monkeypatch.setattr(refusals, "DELAY_SECONDS", 0.1)
    evicted = []
    path = build_pod_path("d", "low") + "/eviction"
    cluster.api.reviews[path] = lambda request: evicted.append(request.body["deleteOptions"]) or {}
    low = build_pod("low", memory=8, assigned={"c": (Share("a", 8),)}, nodeName="n")
    cluster.api.store(PODS, low)
    async with cluster.extender(replica=REPLICA, evict_for_priority=True):
        await cluster.metric("accelkit_leader", "1.0")
        cluster.pod("p", 8)
        await until(lambda: filter_stored(cluster, "p"), accept=lambda nodes: nodes == ["n"])

        def lose_connection(request):
            if request.path.endswith("/binding"):
                cluster.api.fail(ApiError("no answer", status=0), path="/pods/p", times=None)

        cluster.api.before.append(lose_connection)
        assert await cluster.bind("p")
        cluster.api.before.remove(lose_connection)
        await cluster.uses(16)
        cluster.lease("other")
        await cluster.metric("accelkit_leader", "0.0")
        # Without a fence, as after a leader of an earlier version, binds do not start during this test.
        cluster.lease("", 15)
        await cluster.metric("accelkit_leader", "1.0")
        high = cluster.pod("high", 8)
        high["spec"]["priority"] = 9
        cluster.api.show(PODS, "ADDED", high)
        for _ in range(40):
            await cluster.ask("/filter", {"Pod": high, "NodeNames": ["n"]})
            await asyncio.sleep(0.05)
        # The reservation of `p` is outdated, so 8 of 16 are free when binds start.
        assert [each for each in evicted if "dryRun" not in each] == []
