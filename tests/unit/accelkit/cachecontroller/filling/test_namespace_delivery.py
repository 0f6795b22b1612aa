"""Delivery `namespace`: how claims come to be filled, given away, renewed and collected."""

import pytest
from delivery_passes import BOTH, PLAIN, READERS, one_pass, ready_of, settle
from pretended_cluster import FIRST, OURS, SECOND, SETTINGS, Cluster, cache_of, read_claim

from accelkit.cachecontroller.cluster_view import CLAIMS, JOBS, VOLUMES, ObjectName
from accelkit.cachecontroller.filling import NamespaceDelivery
from accelkit.cachecontroller.filling.objects import CONFIG_MAPS
from accelkit.gkm.conditions import ConditionType, find_condition


@pytest.fixture
def filled():
    """A cluster in which the first digest of a cache is delivered."""
    cluster = Cluster()
    settle(cluster, cache_of())
    return cluster


def test_claim_is_filled_in_own_namespace_and_volume_moves_to_workload():
    cluster = Cluster()
    plan = settle(cluster, cache_of())
    assert ready_of(plan).status == "True", plan.states
    claim = cluster.objects[PLAIN]
    volume = cluster.objects[ObjectName(VOLUMES, claim["spec"]["volumeName"])]
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "team",
        "name": "llama",
        "uid": claim["metadata"]["uid"],
    }
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    state = plan.states["team"]
    assert (state.pvc_name, state.pv_name, state.pvc_owner) == ("llama", claim["spec"]["volumeName"], "Operator")
    assert not cluster.all(JOBS)
    assert not cluster.all(CONFIG_MAPS)
    assert not cluster.all(CLAIMS, OURS)


def test_fill_job_binds_claim_that_waits_for_first_consumer():
    cluster = Cluster(late=True)
    assert ready_of(settle(cluster, cache_of(**READERS))).status == "True"
    cluster = Cluster()
    one_pass(cluster, cache_of())
    one_pass(cluster, cache_of())
    (job,) = cluster.all(JOBS).values()
    assert read_claim(job) in cluster.all(CLAIMS, OURS)
    assert f"quay.io/acme/cache@{FIRST}" in job["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("csi", [False, True])
def test_new_controller_continues_from_every_intermediate_state(csi):
    """Each pass is that of a new controller; here each change is carried out alone, as if it were killed after it."""
    cluster = Cluster(csi=csi, late=True)
    cache = cache_of(**READERS)
    for _ in range(60):
        plan = NamespaceDelivery(SETTINGS).plan(cache, cluster)
        single = [*(("create", each) for each in plan.create), *(("patch", each) for each in plan.patch)]
        single += [("delete", each) for each in plan.delete]
        if single:
            kind, change = single[0]
            empty = {"create": (), "patch": (), "delete": ()}
            cluster.carry_out(type(plan)(**{**empty, kind: (change,)}))
        else:
            cluster.turn()
    assert ready_of(plan).status == "True"
    assert list(cluster.all(CLAIMS)) == ["llama"]
    assert len(cluster.all(VOLUMES)) == 1


# Failed Jobs


def test_failed_fill_job_is_reported_and_retried_later():
    cluster = Cluster()
    cache = cache_of()
    for _ in range(3):
        one_pass(cluster, cache)
        for name in [each for each in cluster.objects if each.kind == CLAIMS]:
            cluster._provision(name, cluster.objects[name])
    (job,) = [each for each in cluster.objects if each.kind == JOBS]
    cluster.now = 1_000_001.0
    cluster.end_job(job, failed="Error: no signature counts\n")
    plan = one_pass(cluster, cache)
    assert ready_of(plan).reason == "FillFailed"
    assert ready_of(plan).message == "attempt 1 failed: Error: no signature counts"
    assert plan.wake_after == pytest.approx(9.0)
    assert not plan.create
    cluster.now += 10.0
    plan = one_pass(cluster, cache)
    assert [name.name for name, _ in plan.create if name.kind == JOBS] == [job.name.removesuffix("-1") + "-2"]
    cluster.turn()
    assert ready_of(settle(cluster, cache)).status == "True"
    assert not cluster.all(JOBS)


# A new digest


def test_former_digest_is_kept_until_its_pods_end(filled):
    former = filled.objects[PLAIN]["spec"]["volumeName"]
    filled.use("llama", "old-pod")
    plan = settle(filled, cache_of(SECOND))
    state = plan.states["team"]
    assert ready_of(plan).status == "True"
    assert state.pvc_name == f"llama-{'2' * 12}"
    outdated = find_condition(state.conditions, ConditionType.OUTDATED)
    assert outdated.status == "True"
    assert "old-pod" in outdated.message
    assert former in filled.all(VOLUMES)
    filled.pods.clear()
    plan = settle(filled, cache_of(SECOND))
    assert find_condition(plan.states["team"].conditions, ConditionType.OUTDATED).status == "False"
    assert former not in filled.all(VOLUMES)
    assert len(filled.all(VOLUMES)) == 1


def test_new_digest_replaces_former_digest_after_fill(filled):
    plan = one_pass(filled, cache_of(SECOND))
    assert plan.states["team"].pvc_name == "llama"
    assert PLAIN in filled.objects
    assert not plan.delete
    plan = settle(filled, cache_of(SECOND))
    assert ready_of(plan).status == "True"
    assert plan.states["team"].pvc_name == "llama"
    (volume,) = filled.all(VOLUMES).values()
    assert volume["metadata"]["annotations"]["cache.accelkit.io/digest"] == SECOND


@pytest.mark.parametrize("wanted", ["llama", f"llama-{'1' * 12}"])
def test_volume_moves_to_claim_that_pods_wait_for(wanted):
    """Pods that come by the webhook name the pinned claim, the others that of the cache."""
    cluster = Cluster()
    cache = cache_of()
    settle(cluster, cache)
    for name in [wanted, f"llama-{'1' * 12}", wanted]:
        cluster.pods.clear()
        cluster.use(name)
        plan = settle(cluster, cache)
        assert plan.states["team"].pvc_name == name
        assert ready_of(plan).status == "True"
        assert [*cluster.all(CLAIMS)] == [name]
        assert len(cluster.all(VOLUMES)) == 1


def test_volume_in_use_is_not_moved():
    cluster = Cluster()
    cache = cache_of()
    settle(cluster, cache)
    cluster.use("llama", "runs")
    cluster.use(f"llama-{'1' * 12}", "waits")
    assert settle(cluster, cache).states["team"].pvc_name == "llama"


# Removal


@pytest.mark.parametrize("passes", range(14))
def test_removal_in_any_state_deletes_all_objects_of_cache(passes):
    cluster = Cluster(refuses={BOTH: "access mode"}, csi=True)
    cache = cache_of(**READERS)
    for _ in range(passes):
        one_pass(cluster, cache)
        cluster.turn()
    for _ in range(3):
        cluster.carry_out(NamespaceDelivery(SETTINGS).plan_removal(cache, cluster))
        for name in [each for each in cluster.objects if each.kind == CLAIMS]:
            cluster._provision(name, cluster.objects[name])
    assert not cluster.all(CLAIMS)
    assert not cluster.all(VOLUMES)
    assert not cluster.all(JOBS)
    assert not cluster.all(CONFIG_MAPS)


def test_withdrawn_cache_is_deleted_after_its_pods_end(filled):
    filled.use("llama")
    assert not NamespaceDelivery(SETTINGS).plan_removal(cache_of(), filled).delete
    filled.pods.clear()
    filled.carry_out(NamespaceDelivery(SETTINGS).plan_removal(cache_of(), filled))
    assert not filled.all(CLAIMS)


def test_removal_keeps_claims_of_cache_with_same_name_in_another_namespace():
    cluster = Cluster()
    settle(cluster, cache_of(namespace="other"))
    settle(cluster, cache_of())
    cluster.carry_out(NamespaceDelivery(SETTINGS).plan_removal(cache_of(), cluster))
    assert {name.namespace for name in cluster.objects if name.kind == CLAIMS} == {"other"}


def test_each_workload_namespace_has_own_volume_while_listed_or_in_use():
    cluster = Cluster()
    settle(cluster, cache_of(namespace="", workloadNamespaces=["team", "other"]))
    volumes = {o["spec"]["volumeName"] for o in cluster.all(CLAIMS).values()}
    claims = {(n.namespace, o["spec"]["volumeName"]) for n, o in cluster.objects.items() if n.kind == CLAIMS}
    assert len(claims) == 2
    assert len(cluster.all(VOLUMES)) == 2
    assert volumes
    cluster = Cluster()
    spec = {"namespace": "", "workloadNamespaces": ["team", "other"]}
    settle(cluster, cache_of(**spec))
    cluster.use("llama", namespace="other")
    shrunk = cache_of(namespace="", workloadNamespaces=["team"])
    settle(cluster, shrunk)
    assert len(cluster.all(VOLUMES)) == 2
    cluster.pods.clear()
    settle(cluster, shrunk)
    assert {name.namespace for name in cluster.objects if name.kind == CLAIMS} == {"team"}


def test_pending_claim_with_assigned_volume_is_patched_every_two_seconds():
    cluster, cache, touched = Cluster(), cache_of(), []
    settle(cluster, cache)
    # Kubernetes has not looked at it since.
    cluster.objects[PLAIN]["status"] = {"phase": "Pending"}
    for seconds in (0, 0, 2):
        cluster.now += seconds
        plan = one_pass(cluster, cache)
        assert plan.wake_after == 2
        touched.append([each.name for each in plan.patch])
    assert touched == [[PLAIN], [], [PLAIN]]
    cluster.turn()
    plan = one_pass(cluster, cache)
    assert (plan.patch, plan.wake_after) == ((), 0)
