"""Which volumes are asked for, in which order, and what of a provisioner's words is final."""

import pytest
from delivery_passes import BOTH, PLAIN, READERS, one_pass, ready_of, settle
from pretended_cluster import OURS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import CLAIMS, JOBS, VOLUMES, ObjectName

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
def test_access_modes_are_tried_in_expected_order(name):
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


def test_csi_volume_is_written_with_one_mode_and_read_with_another():
    """An attacher refuses a volume that has both."""
    cluster = Cluster(csi=True)
    observed = []
    for _ in range(20):
        one_pass(cluster, cache_of(**READERS))
        cluster.turn()
        observed += [tuple(each["spec"]["accessModes"]) for each in cluster.all(VOLUMES).values()]
    assert [*dict.fromkeys(observed)] == [("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOnce",), ("ReadOnlyMany",)]


def test_missing_clone_source_and_storage_class_are_not_requested():
    cluster = Cluster(refuses={BOTH: "access mode"}, csi=False)
    sources = []
    put = cluster.put
    cluster.put = lambda name, body: (sources.append((body.get("spec") or {}).get("dataSource")), put(name, body))[1]
    settle(cluster, cache_of(**READERS))
    assert not any(sources)
    plan = one_pass(Cluster(), cache_of(storageClassName="slow"))
    assert ready_of(plan).reason == "InvalidSpec"
    assert "StorageClass slow" in ready_of(plan).message
    assert not plan.create


def test_cloned_volume_is_checked_before_handover():
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


def test_refusal_of_all_access_modes_is_reported_after_events_expire():
    words = "Only support ReadWriteOnce access mode"
    cluster = Cluster(refuses={BOTH: words, "ReadWriteMany": words})
    plan = settle(cluster, cache_of(**READERS))
    ready = ready_of(plan)
    assert (ready.status, ready.reason) == ("False", "AccessModeUnsupported")
    assert words in ready.message
    assert "StorageClass fast" in ready.message
    assert not cluster.all(JOBS), "no Job waits for a claim that will never be"
    for name in [each for each in cluster.objects if each.kind.kind == "Event"]:
        del cluster.objects[name]
    plan = one_pass(cluster, cache_of(**READERS))
    assert ready_of(plan).reason == "AccessModeUnsupported"
    assert not plan.create


def test_temporary_or_unrelated_event_is_not_refusal():
    cluster = Cluster(refuses={BOTH: "exceeded quota: disk space"})
    plan = settle(cluster, cache_of(**READERS))
    ready = ready_of(plan)
    assert (ready.status, ready.reason) == ("False", "Extracting")
    assert "exceeded quota: disk space" in ready.message
    cluster = Cluster()
    cache = cache_of(**READERS)
    one_pass(cluster, cache)
    name = next(each for each in cluster.objects if each.kind == CLAIMS)
    cluster.tell(name, "access mode is refused")
    event = next(o for n, o in cluster.objects.items() if n.kind.kind == "Event")
    event["involvedObject"]["uid"] = "of-a-former-claim"
    assert ready_of(settle(cluster, cache)).status == "True"
