"""What runs in accelkit's namespace for the caches of one namespace is bounded, since no quota of theirs counts it."""

import msgspec
import pytest
from delivery_passes import ready_of
from pretended_cluster import OURS, SECOND, SETTINGS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import JOBS, ObjectName, Refusal
from accelkit.cachecontroller.filling import ImageDelivery, NamespaceDelivery
from accelkit.cachecontroller.filling.namespace_limits import MOST_JOBS, MOST_PREFETCHES
from accelkit.cachecontroller.filling.objects import DAEMON_SETS


def named(name, *, namespace="team", **spec):
    """A cache of a name; of the cluster without a namespace."""
    more = {} if namespace else {"workloadNamespaces": ["team"]}
    cache = cache_of(namespace=namespace, **more, **spec)
    meta = msgspec.structs.replace(cache.metadata, name=name, uid=f"uid-of-{name}")
    status = msgspec.structs.replace(cache.status, cache_format="triton", relocatable=True)
    return msgspec.structs.replace(cache, metadata=meta, status=status)


def one_pass(mode, cluster, cache):
    plan = mode.plan(cache, cluster)
    cluster.carry_out(plan)
    return plan


def fill(cluster, cache):
    """Two passes: a claim, then its Job."""
    one_pass(NamespaceDelivery(SETTINGS), cluster, cache)
    return one_pass(NamespaceDelivery(SETTINGS), cluster, cache)


def test_fill_jobs_per_namespace_are_limited():
    cluster = Cluster()
    for number in range(2 * MOST_JOBS):
        plan = fill(cluster, named(f"c{number}"))
    assert len(cluster.all(JOBS, OURS)) == MOST_JOBS == 4
    ready = ready_of(plan)
    assert (ready.status, ready.reason) == ("False", "Pending")
    assert ready.message == "the Job waits, because 4 Jobs for caches of namespace team are running"
    assert 0 < plan.wake_after <= 10
    # Others do not wait for them.
    fill(cluster, named("theirs", namespace="other"))
    fill(cluster, named("shared", namespace=""))
    assert len(cluster.all(JOBS, OURS)) == MOST_JOBS + 2


@pytest.mark.parametrize("failed", ["", "it failed"])
def test_ended_fill_job_frees_slot_of_its_namespace(failed):
    cluster = Cluster()
    for number in range(MOST_JOBS + 1):
        fill(cluster, named(f"c{number}"))
    cluster.end_job(ObjectName(JOBS, next(iter(cluster.all(JOBS, OURS))), OURS), failed=failed)
    one_pass(NamespaceDelivery(SETTINGS), cluster, named(f"c{MOST_JOBS}"))
    assert len(cluster.all(JOBS, OURS)) == MOST_JOBS + 1


def test_prefetched_images_per_namespace_are_limited():
    cluster, mode = Cluster(), ImageDelivery(SETTINGS)
    for number in range(MOST_PREFETCHES):
        plan = one_pass(mode, cluster, named(f"c{number}", delivery="image"))
        assert ready_of(plan).reason == "Pending"
    plan = one_pass(mode, cluster, named("more", delivery="image"))
    assert len(cluster.all(DAEMON_SETS, OURS)) == MOST_PREFETCHES == 8
    assert ready_of(plan).reason == "OverBudget"
    assert "nodes pull 8 images for caches of namespace team, which is the limit" in ready_of(plan).message
    assert 0 < plan.wake_after <= 60
    one_pass(mode, cluster, named("theirs", namespace="other", delivery="image"))
    one_pass(mode, cluster, named("shared", namespace="", delivery="image"))
    assert len(cluster.all(DAEMON_SETS, OURS)) == MOST_PREFETCHES + 2
    # A new digest of one of them takes the place of its former one.
    newer = named("c0", delivery="image")
    newer.status.resolved_digest = SECOND
    assert ready_of(one_pass(mode, cluster, newer)).reason == "Pending"
    # Whose cache goes makes room.
    cluster.carry_out(mode.plan_removal(named("c1", delivery="image"), cluster))
    assert ready_of(one_pass(mode, cluster, named("more", delivery="image"))).reason == "Pending"


def test_failed_copy_of_pull_secret_is_reported():
    refusal = Refusal("PullSecretUnreadable", "Secret team/login is too large")
    secrets = [{"name": "login"}]
    cluster = Cluster()
    plan = fill(cluster, named("c", imagePullSecrets=secrets))
    (copied,) = one_pass(NamespaceDelivery(SETTINGS), cluster, named("c", imagePullSecrets=secrets)).copies
    cluster.refusals[copied.name] = refusal
    plan = one_pass(NamespaceDelivery(SETTINGS), cluster, named("c", imagePullSecrets=secrets))
    assert (ready_of(plan).reason, ready_of(plan).message) == (refusal.reason, refusal.message)
    image = named("i", imagePullSecrets=secrets, delivery="image")
    one_pass(ImageDelivery(SETTINGS), cluster, image)
    (copied,) = one_pass(ImageDelivery(SETTINGS), cluster, image).copies
    cluster.refusals[copied.name] = refusal
    plan = one_pass(ImageDelivery(SETTINGS), cluster, image)
    assert (ready_of(plan).reason, ready_of(plan).message) == (refusal.reason, refusal.message)
