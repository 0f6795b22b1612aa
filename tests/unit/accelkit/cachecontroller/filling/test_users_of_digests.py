"""Which pods have which digest, whatever the delivery: it stays while they run, and they are counted."""

from __future__ import annotations

import msgspec
import pytest
from delivery_passes import PLAIN, settle
from pretended_cluster import FIRST, SECOND, SETTINGS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import ClaimPod
from accelkit.cachecontroller.deciding.former_digests import GRACE_SECONDS, FormerDigests
from accelkit.cachecontroller.deciding.status import count_pods
from accelkit.cachecontroller.service import build_modes
from accelkit.gkm.names import name_pinned_claim
from accelkit.gkm.objects import Cache, Delivery

MODES = build_modes(SETTINGS)


def moved(delivery: Delivery) -> Cache:
    """A cache whose tag leads from the first digest to the second."""
    cache = cache_of(SECOND, delivery=delivery.value)
    return msgspec.structs.replace(cache, status=msgspec.structs.replace(cache.status, previous_digests=[FIRST]))


def used(delivery: Delivery) -> tuple[Cluster, ClaimPod]:
    """A cluster with a pod that got the first digest."""
    cluster = Cluster()
    settle(cluster, cache_of(FIRST))
    pod = ClaimPod("team", "old", node="n")
    if delivery is Delivery.IMAGE:
        pod = ClaimPod("team", "old", images=frozenset({f"quay.io/acme/cache@{FIRST}"}), node="n")
    elif delivery is Delivery.NAMESPACE:
        pod = ClaimPod("team", "old", frozenset({PLAIN.name}), node="n")
    else:
        pod = ClaimPod("team", "old", frozenset({name_pinned_claim("team/llama", FIRST)}), node="n")
    cluster.pods.append(pod)
    return cluster, pod


@pytest.mark.parametrize("delivery", [Delivery.NODE, Delivery.NAMESPACE, Delivery.IMAGE])
def test_former_digest_is_kept_and_its_pods_count_as_outdated(delivery):
    cluster, pod = used(delivery)
    cache, former = moved(delivery), FormerDigests()
    assert former.select(cache, cluster, 0.0, MODES.values()) == ([FIRST], 0.0)
    assert former.select(cache, cluster, 10 * GRACE_SECONDS, MODES.values()) == ([FIRST], 0.0)
    users = MODES[delivery].list_users(cache, cluster)
    assert users[FIRST] == [pod]
    counts = count_pods(SECOND, users)
    assert (counts.node_cnt, counts.pod_running_cnt, counts.pod_outdated_cnt) == (1, 0, 1)
    assert count_pods(FIRST, users).pod_running_cnt == 1
    # It ends.
    cluster.pods.clear()
    assert former.select(cache, cluster, 700.0, MODES.values()) == ([FIRST], GRACE_SECONDS)
    assert former.select(cache, cluster, 700.0 + GRACE_SECONDS, MODES.values()) == ([], 0.0)


def test_pods_of_other_digests_or_namespaces_do_not_keep_former_digest():
    cluster = Cluster()
    cluster.pods += [
        ClaimPod("team", "new", images=frozenset({f"quay.io/acme/cache@{SECOND}"})),
        ClaimPod("other", "old", images=frozenset({f"quay.io/acme/cache@{FIRST}"})),
        ClaimPod("other", "older", frozenset({name_pinned_claim("team/llama", FIRST)})),
    ]
    assert FormerDigests().select(moved(Delivery.IMAGE), cluster, 0.0, MODES.values()) == ([FIRST], GRACE_SECONDS)
    waits, leaves = ClaimPod("team", "waits"), ClaimPod("team", "leaves", node="n", leaving=True)
    counts = count_pods(SECOND, {SECOND: [waits, leaves], FIRST: []})
    assert (counts.pod_running_cnt, counts.pod_deleting_cnt, counts.pod_outdated_cnt) == (0, 1, 0)
