"""Passes of a controller over one cache of delivery `namespace`."""

from __future__ import annotations

import pytest
from pretended_cluster import SETTINGS, Cluster

from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName
from accelkit.cachecontroller.delivery import DeliveryPlan
from accelkit.cachecontroller.filling import NamespaceDelivery
from accelkit.gkm.conditions import Condition, ConditionType, find_condition
from accelkit.gkm.objects import Cache

BOTH = "ReadWriteOnce,ReadOnlyMany"
READERS = {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
PLAIN = ObjectName(CLAIMS, "llama", "team")


def one_pass(cluster: Cluster, cache: Cache) -> DeliveryPlan:
    """One pass of a controller that knows nothing but what it is shown."""
    plan = NamespaceDelivery(SETTINGS).plan(cache, cluster)
    cluster.carry_out(plan)
    return plan


def settle(cluster: Cluster, cache: Cache, passes: int = 30) -> DeliveryPlan:
    """Let all controllers work until nothing changes any more; the last plan."""
    for _ in range(passes):
        plan = one_pass(cluster, cache)
        if not (plan.create or plan.patch or plan.delete):
            before = repr(cluster.objects)
            cluster.turn()
            if repr(cluster.objects) == before:
                return plan
        cluster.turn()
    pytest.fail("it does not come to rest")


def ready_of(plan: DeliveryPlan, namespace: str = "team") -> Condition:
    found = find_condition(plan.states[namespace].conditions, ConditionType.READY)
    assert found is not None
    return found
