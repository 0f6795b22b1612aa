"""Delivery `namespace`: how claims come to be filled, given away, renewed and collected."""

from __future__ import annotations

import pytest
from pretended_cluster import FIRST, OURS, SECOND, SETTINGS, Cluster, cache_of, read_claim

from accelkit.cachecontroller.delivery import CLAIMS, JOBS, VOLUMES, ObjectName, Refusal
from accelkit.cachecontroller.filling import NamespaceDelivery
from accelkit.cachecontroller.filling.objects import CONFIG_MAPS
from accelkit.gkm.conditions import ConditionType, find_condition

BOTH = "ReadWriteOnce,ReadOnlyMany"
READERS = {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
PLAIN = ObjectName(CLAIMS, "llama", "team")


def one_pass(cluster, cache):
    """One pass of a controller that knows nothing but what it is shown."""
    plan = NamespaceDelivery(SETTINGS).plan(cache, cluster)
    cluster.carry_out(plan)
    return plan


def settle(cluster, cache, passes=30):
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


def ready_of(plan, namespace="team"):
    return find_condition(plan.states[namespace].conditions, ConditionType.READY)


def test_a_claim_is_filled_in_accelkits_namespace_and_given_to_the_workloads():
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


def test_nothing_is_left_in_accelkits_namespace_once_it_is_given():
    cluster = Cluster()
    settle(cluster, cache_of())
    assert not cluster.all(JOBS)
    assert not cluster.all(CONFIG_MAPS)
    assert not cluster.all(CLAIMS, OURS)


def test_a_claim_that_waits_for_its_first_consumer_is_filled_too():
    cluster = Cluster(late=True)
    assert ready_of(settle(cluster, cache_of(**READERS))).status == "True"


@pytest.mark.parametrize("csi", [False, True])
def test_every_state_is_gone_on_from_by_a_controller_that_starts_there(csi):
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


# Access modes

TABLE = {
    "both modes in one claim": ({}, False, False, ["ReadOnlyMany"]),
    "a clone where the claim is refused": ({BOTH: "Volume capability not supported"}, True, False, ["ReadOnlyMany"]),
    "a snapshot where cloning is refused": (
        {BOTH: "access mode", "copy ReadOnlyMany": "driver does not support clone"},
        True,
        True,
        None,
    ),
    "shared writing where nothing else is there": (
        {BOTH: "NodePath only supports ReadWriteOnce access modes"},
        False,
        False,
        ["ReadWriteMany"],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_order_in_which_access_modes_are_tried(name):
    refuses, csi, snapshots, modes = TABLE[name]
    cluster = Cluster(refuses=refuses, csi=csi, snapshots=snapshots)
    plan = settle(cluster, cache_of(**READERS))
    assert ready_of(plan).status == "True", plan.states
    volume = cluster.objects[ObjectName(VOLUMES, cluster.objects[PLAIN]["spec"]["volumeName"])]
    # Where a copy is refused, the one of a snapshot is too in this cluster, so that the shared one is left.
    assert volume["spec"]["accessModes"] == (modes or ["ReadWriteMany"])
    assert len(cluster.all(VOLUMES)) == 1
    assert not cluster.all(CLAIMS, OURS)


def test_a_snapshot_is_used_where_cloning_is_refused():
    cluster = Cluster(refuses={BOTH: "access mode"}, csi=True, snapshots=True)
    made = []
    put = cluster.put

    def note(name, document):
        source = document.get("spec", {}).get("dataSource")
        if name.kind == CLAIMS and source is not None:
            made.append(source["kind"])
            if source["kind"] == CLAIMS.kind:
                put(name, document)
                cluster.tell(name, "CSI driver does not support clone operations")
                cluster.refuses["copy ReadOnlyMany"] = "does not support clone"
                return
            cluster.refuses.pop("copy ReadOnlyMany", None)
        put(name, document)

    cluster.put = note
    plan = settle(cluster, cache_of(**READERS))
    assert ready_of(plan).status == "True"
    assert made == ["PersistentVolumeClaim", "VolumeSnapshot"]


def test_a_volume_of_a_csi_driver_is_written_with_one_mode_and_read_with_the_other():
    """An attacher refuses a volume that has both."""
    cluster = Cluster(csi=True)
    seen = []
    for _ in range(20):
        one_pass(cluster, cache_of(**READERS))
        cluster.turn()
        seen += [tuple(each["spec"]["accessModes"]) for each in cluster.all(VOLUMES).values()]
    assert [*dict.fromkeys(seen)] == [("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOnce",), ("ReadOnlyMany",)]


def test_a_clone_is_never_asked_of_a_provisioner_that_would_ignore_it():
    cluster = Cluster(refuses={BOTH: "access mode"}, csi=False)
    sources = []
    put = cluster.put
    cluster.put = lambda name, body: (sources.append((body.get("spec") or {}).get("dataSource")), put(name, body))[1]
    settle(cluster, cache_of(**READERS))
    assert not any(sources)


def test_a_copy_is_checked_before_it_is_given_away():
    cluster = Cluster(refuses={BOTH: "access mode"}, csi=True)
    checks = []
    put = cluster.put

    def note(name, document):
        if name.kind == JOBS:
            container = document["spec"]["template"]["spec"]["containers"][0]
            mounts = {each["name"]: each for each in container["volumeMounts"]}
            checks.append(("--check" in container["args"], mounts["volume"].get("readOnly", False)))
        put(name, document)

    cluster.put = note
    settle(cluster, cache_of(**READERS))
    assert checks == [(False, False), (True, True)]


def test_where_all_is_refused_the_provisioners_own_words_are_told():
    words = "Only support ReadWriteOnce access mode"
    cluster = Cluster(refuses={BOTH: words, "ReadWriteMany": words})
    plan = settle(cluster, cache_of(**READERS))
    ready = ready_of(plan)
    assert (ready.status, ready.reason) == ("False", "AccessModeUnsupported")
    assert words in ready.message
    assert "StorageClass fast" in ready.message
    assert not cluster.all(JOBS), "no Job waits for a claim that will never be"


def test_the_refusal_is_kept_when_its_events_are_gone():
    words = "Only support ReadWriteOnce access mode"
    cluster = Cluster(refuses={BOTH: words, "ReadWriteMany": words})
    cache = cache_of(**READERS)
    settle(cluster, cache)
    for name in [each for each in cluster.objects if each.kind.kind == "Event"]:
        del cluster.objects[name]
    plan = one_pass(cluster, cache)
    assert ready_of(plan).reason == "AccessModeUnsupported"
    assert not plan.create


def test_what_may_pass_is_no_refusal():
    cluster = Cluster(refuses={BOTH: "exceeded quota: disk space"})
    plan = settle(cluster, cache_of(**READERS))
    ready = ready_of(plan)
    assert (ready.status, ready.reason) == ("False", "Extracting")
    assert "exceeded quota: disk space" in ready.message


def test_events_of_other_claims_say_nothing():
    cluster = Cluster()
    cache = cache_of(**READERS)
    one_pass(cluster, cache)
    name = next(each for each in cluster.objects if each.kind == CLAIMS)
    cluster.tell(name, "access mode is refused")
    event = next(o for n, o in cluster.objects.items() if n.kind.kind == "Event")
    event["involvedObject"]["uid"] = "of-a-former-claim"
    assert ready_of(settle(cluster, cache)).status == "True"


def test_a_storage_class_that_is_not_there_is_named():
    plan = one_pass(Cluster(), cache_of(storageClassName="slow"))
    assert ready_of(plan).reason == "InvalidSpec"
    assert "StorageClass slow" in ready_of(plan).message
    assert not plan.create


# Failed Jobs


def test_a_failed_job_is_tried_again_later_and_its_words_are_told():
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
    assert ready_of(plan).message == "try 1 failed: Error: no signature counts"
    assert plan.wake_after == pytest.approx(9.0)
    assert not plan.create
    cluster.now += 10.0
    plan = one_pass(cluster, cache)
    assert [name.name for name, _ in plan.create] == [job.name.removesuffix("-1") + "-2"]
    cluster.turn()
    assert ready_of(settle(cluster, cache)).status == "True"
    assert not cluster.all(JOBS)


# A new digest


def test_a_new_digest_takes_the_place_of_one_that_nobody_uses():
    cluster = Cluster()
    settle(cluster, cache_of())
    plan = settle(cluster, cache_of(SECOND))
    assert ready_of(plan).status == "True"
    assert plan.states["team"].pvc_name == "llama"
    (volume,) = cluster.all(VOLUMES).values()
    assert volume["metadata"]["annotations"]["cache.accelkit.io/digest"] == SECOND


def test_pods_keep_a_former_digest_until_they_are_gone():
    cluster = Cluster()
    settle(cluster, cache_of())
    former = cluster.objects[PLAIN]["spec"]["volumeName"]
    cluster.use("llama", "old-pod")
    plan = settle(cluster, cache_of(SECOND))
    state = plan.states["team"]
    assert ready_of(plan).status == "True"
    assert state.pvc_name == f"llama-{'2' * 12}"
    outdated = find_condition(state.conditions, ConditionType.OUTDATED)
    assert outdated.status == "True"
    assert "old-pod" in outdated.message
    assert former in cluster.all(VOLUMES)
    cluster.pods.clear()
    plan = settle(cluster, cache_of(SECOND))
    assert find_condition(plan.states["team"].conditions, ConditionType.OUTDATED).status == "False"
    assert former not in cluster.all(VOLUMES)
    assert len(cluster.all(VOLUMES)) == 1


def test_until_the_new_one_is_filled_pods_get_the_former():
    cluster = Cluster()
    settle(cluster, cache_of())
    plan = one_pass(cluster, cache_of(SECOND))
    assert plan.states["team"].pvc_name == "llama"
    assert PLAIN in cluster.objects
    assert not plan.delete


@pytest.mark.parametrize("wanted", ["llama", f"llama-{'1' * 12}"])
def test_a_volume_goes_where_pods_wait_for_it(wanted):
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


def test_a_volume_in_use_stays_where_it_is():
    cluster = Cluster()
    cache = cache_of()
    settle(cluster, cache)
    cluster.use("llama", "runs")
    cluster.use(f"llama-{'1' * 12}", "waits")
    assert settle(cluster, cache).states["team"].pvc_name == "llama"


# Lies and accidents


def test_a_claim_of_somebody_else_is_not_touched():
    cluster = Cluster()
    foreign = {"metadata": {}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "theirs"}}
    cluster.put(PLAIN, foreign)
    for _ in range(20):
        plan = one_pass(cluster, cache_of())
        cluster.turn()
    assert ready_of(plan).reason == "ClaimExists"
    assert cluster.objects[PLAIN]["spec"] == foreign["spec"]
    assert all(name.name != "llama" for name in (each.name for each in plan.delete))


def test_a_claim_that_copies_our_labels_is_not_believed():
    """A tenant may write any label and annotation in his namespace; the volume says whose claim it has."""
    cluster = Cluster()
    settle(cluster, cache_of(namespace="other"))
    mark = cluster.objects[ObjectName(CLAIMS, "llama", "other")]["metadata"]
    forged = {"team/llama": mark["annotations"]["cache.accelkit.io/key"]}
    annotations = {**mark["annotations"], "cache.accelkit.io/key": "team/llama"}
    annotations |= {"cache.accelkit.io/for-namespace": "team", "cache.accelkit.io/filled-for": "/cache"}
    assert forged
    cluster.put(
        PLAIN,
        {
            "metadata": {"labels": mark["labels"], "annotations": annotations},
            "spec": {"volumeName": "poisoned", "accessModes": ["ReadWriteOnce"]},
        },
    )
    cluster.put(ObjectName(VOLUMES, "poisoned"), {"metadata": {}, "spec": {"claimRef": {}}})
    for _ in range(20):
        plan = one_pass(cluster, cache_of())
        cluster.turn()
    assert ready_of(plan).status == "False"
    assert ready_of(plan).reason == "ClaimExists"
    assert PLAIN in cluster.objects


def test_a_claim_that_a_tenant_deletes_is_filled_anew():
    cluster = Cluster()
    cache = cache_of()
    settle(cluster, cache)
    former = cluster.objects[PLAIN]["spec"]["volumeName"]
    cluster.delete(PLAIN)
    plan = settle(cluster, cache)
    assert ready_of(plan).status == "True"
    assert plan.states["team"].pv_name != former


def test_a_refused_quota_is_told():
    cluster = Cluster()
    cluster.refusals[PLAIN] = Refusal("Forbidden", "exceeded quota: storage")
    for _ in range(20):
        plan = NamespaceDelivery(SETTINGS).plan(cache_of(), cluster)
        cluster.carry_out(type(plan)(create=tuple(e for e in plan.create if e[0] != PLAIN), patch=plan.patch))
        cluster.turn()
    assert ready_of(plan).reason == "Forbidden"
    assert "exceeded quota: storage" in ready_of(plan).message


# Removal


@pytest.mark.parametrize("passes", range(14))
def test_nothing_is_left_of_a_cache_that_is_removed_in_any_state(passes):
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


def test_another_cache_of_the_same_name_keeps_its_claims():
    cluster = Cluster()
    settle(cluster, cache_of(namespace="other"))
    settle(cluster, cache_of())
    cluster.carry_out(NamespaceDelivery(SETTINGS).plan_removal(cache_of(), cluster))
    assert {name.namespace for name in cluster.objects if name.kind == CLAIMS} == {"other"}


def test_a_namespace_that_is_not_named_any_more_loses_its_claim_once_unused():
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


def test_each_namespace_gets_a_volume_of_its_own():
    cluster = Cluster()
    settle(cluster, cache_of(namespace="", workloadNamespaces=["team", "other"]))
    volumes = {o["spec"]["volumeName"] for o in cluster.all(CLAIMS).values()}
    claims = {(n.namespace, o["spec"]["volumeName"]) for n, o in cluster.objects.items() if n.kind == CLAIMS}
    assert len(claims) == 2
    assert len(cluster.all(VOLUMES)) == 2
    assert volumes


def test_first_digest_names_are_of_the_first_digest():
    cluster = Cluster()
    one_pass(cluster, cache_of())
    one_pass(cluster, cache_of())
    (job,) = cluster.all(JOBS).values()
    assert read_claim(job) in cluster.all(CLAIMS, OURS)
    assert f"quay.io/acme/cache@{FIRST}" in job["spec"]["template"]["spec"]["containers"][0]["args"]
