"""What is kept for a pod counts in its namespace's quota, and nobody leaves for one that the quota refuses."""

import pytest
from evicting_cluster import Evicting

from accelkit.ledger.holding import ShareStage
from accelkit.placement.sharing.rules import read_rules


def limit(cluster, memory):
    """Give the namespace of all pods a quota of memory."""
    cluster.feed.take_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": memory}]}))


@pytest.fixture
def cluster():
    made = Evicting("n", "m")
    for number in range(4):
        made.pod(f"low{number}", 8, 1, "ab"[number % 2], node="nm"[number // 2], namespace="other")
    return made


async def test_evictions_for_pods_refused_together_respect_their_quota(cluster):
    limit(cluster, 8)
    pods = [cluster.pod(f"high{number}", 8, 10) for number in range(4)]
    for pod in pods:
        assert await cluster.filter(pod) == []
    for _ in range(8):
        cluster.now += 3
        await cluster.evictor.run_once()
    assert len(cluster.evicted) == 1
    assert cluster.ledger.namespaces.get_held("d").memory_bytes == 8
    # The one for whom it is kept gets it, though its own claim fills the quota.
    kept = [number for number in range(4) if cluster.ledger.find_holding(f"uid-high{number}")]
    assert [len(await cluster.filter(pods[number])) for number in range(4)] == [number in kept for number in range(4)]
    cluster.reserve(f"high{kept[0]}", cluster.ledger.find_holding(f"uid-high{kept[0]}").node)


async def test_evictor_claims_nothing_if_quota_shrinks_during_eviction(cluster):
    limit(cluster, 8)
    high = cluster.pod("high", 8, 10)

    def lower(request):
        if request.path.endswith("/eviction"):
            limit(cluster, 7)

    cluster.api.before.append(lower)
    assert await cluster.look(high) == []
    assert cluster.ledger.find_holding("uid-high") is None


async def test_pod_over_quota_is_removed_from_refusals(cluster):
    high = cluster.pod("high", 8, 10)
    await cluster.filter(high)
    limit(cluster, 7)
    await cluster.filter(high)
    assert list(cluster.refusals.list_nodes("uid-high")) == []
    limit(cluster, 8)
    assert len(await cluster.look(high)) == 1


async def test_claimed_pod_over_lowered_quota_fits_no_node(cluster):
    high = cluster.pod("high", 8, 10)
    await cluster.look(high)
    assert cluster.ledger.find_holding("uid-high").stage is ShareStage.CLAIMED
    limit(cluster, 7)
    assert await cluster.filter(high) == []
    limit(cluster, 8)
    assert len(await cluster.filter(high)) == 1
