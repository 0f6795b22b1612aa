"""What the API server refuses of a fill is tried again soon, and not only with the next verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from delivery_passes import one_pass, ready_of, settle
from pretended_cluster import OURS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import (
    AFTER_REFUSAL_SECONDS,
    CLAIMS,
    JOBS,
    REFUSAL_SECONDS,
    Kind,
    ObjectName,
    Refusal,
)
from accelkit.cachecontroller.filling.objects import CONFIG_MAPS, SNAPSHOTS
from accelkit.gkm.objects import Cache

QUOTA = Refusal("Forbidden", "exceeded quota")


class Strict(Cluster):
    """A cluster that refuses a kind of objects in accelkit's namespace."""

    def __init__(self, kind: Kind, **more) -> None:
        super().__init__(**more)
        self.kind: Kind | None = kind

    def carry_out(self, plan):
        refused = [name for name, _ in plan.create if (name.kind, name.namespace) == (self.kind, OURS)]
        self.refusals |= dict.fromkeys(refused, QUOTA)
        kept = tuple(each for each in plan.create if each[0] not in refused)
        return super().carry_out(replace(plan, create=kept))

    def end_job(self, name, *, failed=""):
        # Its pod waits for what it mounts.
        if ObjectName(CONFIG_MAPS, name.name, name.namespace) in self.objects:
            super().end_job(name, failed=failed)


def readers() -> Cache:
    return cache_of(accessModes=["ReadWriteOnce", "ReadOnlyMany"])


@pytest.mark.parametrize("kind", [CLAIMS, JOBS, CONFIG_MAPS, SNAPSHOTS])
def test_refused_object_is_reported_and_created_again_later(kind):
    more = {"csi": True, "snapshots": True} if kind is SNAPSHOTS else {}
    never = {"ReadWriteOnce,ReadOnlyMany": "no such access mode", "copy ReadOnlyMany": "clones are not supported"}
    cluster = Strict(kind, refuses=never if more else {}, **more)
    cache = readers() if more else cache_of()
    plan = settle(cluster, cache)
    assert ready_of(plan).reason == "Forbidden"
    assert "exceeded quota" in ready_of(plan).message
    assert plan.wake_after == AFTER_REFUSAL_SECONDS > REFUSAL_SECONDS
    assert not [name for name, _ in plan.create if name.kind == kind]
    # What is remembered has passed, and so has the quota.
    cluster.refusals.clear()
    cluster.kind = None
    assert [name for name, _ in one_pass(cluster, cache).create if name.kind == kind]


def test_refused_config_map_of_job_is_created_later():
    cluster, cache = Strict(CONFIG_MAPS), cache_of()
    settle(cluster, cache)
    jobs = cluster.all(JOBS)
    assert jobs
    assert not cluster.all(CONFIG_MAPS)
    cluster.refusals.clear()
    cluster.kind = None
    one_pass(cluster, cache)
    assert cluster.all(JOBS).keys() == jobs.keys() == cluster.all(CONFIG_MAPS).keys()


def test_refused_claim_in_workload_namespace_is_created_again():
    cluster, cache = Cluster(), cache_of()
    cluster.refusals[ObjectName(CLAIMS, "llama", "team")] = QUOTA
    plan = settle(cluster, cache)
    assert (ready_of(plan).reason, plan.wake_after) == ("Forbidden", AFTER_REFUSAL_SECONDS)
    cluster.refusals.clear()
    assert ready_of(settle(cluster, cache)).status == "True"
