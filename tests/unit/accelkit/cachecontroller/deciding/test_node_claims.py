"""Claims on nodes: what is made, mended and taken away, and whose claims are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from node_claim_passes import DIGEST, KEY, LINK, MODE, OTHER, PINNED, cache, carry_out, mount, ready, settle, show

from accelkit.cachecontroller.cluster_state import NamedObject
from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ObjectName, ObservedMetadata, ObservedObject, Refusal
from accelkit.cachecontroller.deciding.removal import describe_removal, find_users
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus
from accelkit.model.keys import CACHE_KEY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta


@pytest.fixture
def seen():
    return show()


def test_namespace_gets_claim_of_link_and_claim_of_digest(seen):
    made: dict[ObjectName, Any] = {}
    plan = settle(seen, cache(), made=made)
    paths = {name.name: each["spec"]["hostPath"] for name, each in made.items() if name.kind is VOLUMES}
    assert paths == {
        names.name_volume(KEY, "team"): {"path": names.build_volume_path(KEY, "team"), "type": "Directory"},
        names.name_volume(KEY, "team", DIGEST): {
            "path": names.build_volume_path(KEY, "team", DIGEST, "/cache"),
            "type": "Directory",
        },
    }
    spec = made[ObjectName(VOLUMES, names.name_volume(KEY, "team"))]["spec"]
    assert spec["capacity"] == {"storage": "3Mi"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["storageClassName"] == ""
    assert "nodeAffinity" not in spec
    assert seen.find(LINK).spec["accessModes"] == ["ReadWriteOnce"]
    assert ready(plan) == ("True", "Ready")
    assert (plan.states["team"].pvc_name, plan.states["team"].pvc_owner) == ("kernels", "Agent")


def test_unsupported_access_mode_and_missing_namespace_get_no_claim(seen):
    plan = MODE.plan(cache(), seen)
    assert {name.kind for name, _ in plan.create} == {CLAIMS}
    plan = MODE.plan(cache(access_modes=("ReadWriteOncePod",)), seen)
    assert not plan.create
    assert ready(plan) == ("False", "AccessModeUnsupported")
    of = Cache(CacheMeta(name="kernels"), CacheSpec(workload_namespaces=("gone", "leaving")), cache().status)
    seen.replace_namespaces([NamedObject(ObjectMeta(name="leaving", deletion_timestamp="2026-01-01T00:00:00Z"))])
    plan = MODE.plan(of, seen)
    assert not plan.create
    assert ready(plan, "leaving") == ("False", "Deleting")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"volumeName": "something-else", "storageClassName": ""},
        {"volumeName": names.name_volume(KEY, "team"), "storageClassName": "fast"},
    ],
    ids=["without a volume", "another volume", "another class"],
)
def test_claim_with_forged_labels_is_not_changed(seen, spec):
    meta = ObservedMetadata(
        name="kernels",
        namespace="team",
        uid="theirs",
        labels=names.build_labels(KEY),
        annotations={CACHE_KEY_ANNOTATION: KEY},
    )
    seen.put(LINK, ObservedObject(meta, spec))
    plan = settle(seen, cache())
    assert ready(plan) == ("False", "ClaimExists")
    assert seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team"))) is None
    removal = MODE.plan_removal(cache(), seen)
    assert LINK not in {each.name for each in removal.delete}
    mount(seen, "kernels")
    assert find_users(cache(), seen, [MODE]) == []


def test_claim_conflict_is_reported_and_retried_later(seen):
    seen.refuse(LINK, Refusal("ClaimExists", "it is there"))
    plan = settle(seen, cache())
    assert ready(plan) == ("False", "ClaimExists")
    assert plan.wake_after > 0


def test_conflict_of_pinned_claim_is_reported(seen):
    seen.refuse(PINNED, Refusal("ClaimExists", "it is there"))
    assert ready(settle(seen, cache())) == ("False", "ClaimExists")


def test_deleted_claim_is_created_again_with_its_volume(seen):
    settle(seen, cache())
    former = seen.find(LINK)
    seen.take_object_event(CLAIMS)("DELETED", former)
    # Nobody else may have the volume meanwhile.
    assert not MODE.plan(cache(), seen).patch
    assert ready(settle(seen, cache())) == ("True", "Ready")
    uid = seen.find(LINK).metadata.uid
    assert uid != former.metadata.uid
    assert seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team"))).spec["claimRef"]["uid"] == uid


def test_unlabelled_claim_is_repaired_and_deleting_claim_is_awaited(seen):
    settle(seen, cache())
    seen.find(LINK).metadata.labels = None
    settle(seen, cache())
    assert names.build_labels(KEY).items() <= seen.find(LINK).metadata.labels.items()
    seen.find(LINK).metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    plan = MODE.plan(cache(), seen)
    assert not plan.create
    assert ready(plan) == ("False", "Deleting")


def test_new_digest_gets_claim_beside_former_claim(seen):
    of = cache()
    settle(seen, of)
    mount(seen, PINNED.name)
    of.status = CacheStatus(resolved_digest=OTHER, previous_digests=[DIGEST], mount_path="/elsewhere", delivery="node")
    settle(seen, of)
    former = seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team", DIGEST)))
    # Pods that run see what they saw.
    assert former.spec["hostPath"]["path"] == names.build_volume_path(KEY, "team", DIGEST, "/cache")
    of.status.previous_digests = []
    # Nothing of it goes as long as a pod has it.
    assert not MODE.plan(of, seen).delete
    seen.replace_pods([])
    assert {each.name.name for each in MODE.plan(of, seen).delete} == {
        PINNED.name,
        names.name_volume(KEY, "team", DIGEST),
    }


def test_new_mount_path_recreates_claim_and_volume_of_digest(seen):
    of = cache()
    settle(seen, of)
    of.status.mount_path = "/elsewhere"
    settle(seen, of)
    volume = seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team", DIGEST)))
    assert volume.spec["hostPath"]["path"] == names.build_volume_path(KEY, "team", DIGEST, "/elsewhere")


def set_former_paths(seen):
    """Give the volumes the paths of earlier releases."""
    paths = {"": names.build_link_path(KEY), DIGEST: names.build_cache_path(DIGEST, "/cache")}
    for digest, path in paths.items():
        seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team", digest))).spec["hostPath"]["path"] = path
    return set(paths.values())


def read_paths(seen):
    return {each.spec["hostPath"]["path"] for _, each in seen.list_all(VOLUMES)}


def test_volumes_of_earlier_release_are_kept_while_used(seen):
    of = cache()
    settle(seen, of)
    former = set_former_paths(seen)
    plan = MODE.plan(of, seen)
    assert plan.create + plan.patch + plan.delete == ()
    assert ready(plan) == ("True", "Ready")
    # A user deletes the claim: the new claim gets the same volume.
    seen.take_object_event(CLAIMS)("DELETED", seen.find(PINNED))
    assert ready(settle(seen, of)) == ("True", "Ready")
    assert read_paths(seen) == former
    # A new digest gets an entry of the namespace, and pods keep the former one.
    mount(seen, PINNED.name)
    of.status = CacheStatus(resolved_digest=OTHER, previous_digests=[DIGEST], mount_path="/cache", delivery="node")
    settle(seen, of)
    assert read_paths(seen) == former | {names.build_volume_path(KEY, "team", OTHER, "/cache")}
    seen.replace_pods([])
    of.status.previous_digests = []
    settle(seen, of)
    assert names.build_cache_path(DIGEST, "/cache") not in read_paths(seen)


def test_new_mount_path_replaces_former_volume_by_namespace_entry(seen):
    of = cache()
    settle(seen, of)
    set_former_paths(seen)
    of.status.mount_path = "/elsewhere"
    settle(seen, of)
    assert read_paths(seen) == {
        names.build_link_path(KEY),
        names.build_volume_path(KEY, "team", DIGEST, "/elsewhere"),
    }


def test_each_namespace_of_a_cluster_cache_has_its_own_entries(seen):
    seen.replace_namespaces([NamedObject(ObjectMeta(name=each)) for each in ("team", "other")])
    of = Cache(CacheMeta(name="kernels", uid="u"), CacheSpec(workload_namespaces=("team", "other")), cache().status)
    settle(seen, of)
    for _, volume in seen.list_all(VOLUMES):
        namespace = volume.spec["claimRef"]["namespace"]
        assert volume.spec["hostPath"]["path"].startswith(names.build_entry_path(namespace, "") + "/")
    assert len(read_paths(seen)) == 4


def test_claims_of_removed_workload_namespace_are_deleted(seen):
    of = Cache(CacheMeta(name="kernels"), CacheSpec(workload_namespaces=("team",)), cache().status)
    settle(seen, of)
    of.spec = CacheSpec(workload_namespaces=())
    assert len(MODE.plan(of, seen).delete) == 4


def test_removal_waits_for_pods_and_deletes_unused_claims(seen):
    of = cache()
    settle(seen, of)
    mount(seen, "kernels")
    users = find_users(of, seen, [MODE])
    assert [pod.name for pod in users] == ["user"]
    told = describe_removal(of, users).conditions[0]
    assert (told.type, told.reason) == ("Ready", "InUse")
    assert "team/user" in told.message
    assert {each.name.name for each in MODE.plan_removal(of, seen).delete} == {
        PINNED.name,
        names.name_volume(KEY, "team", DIGEST),
    }
    seen.replace_pods([])
    assert find_users(of, seen, [MODE]) == []
    assert len(MODE.plan_removal(of, seen).delete) == 4
    carry_out(seen, MODE.plan_removal(of, seen))
    assert not MODE.plan_removal(of, seen).delete


@pytest.mark.parametrize(
    ("claim", "keeps"), [("kernels", True), (PINNED.name, True), ("kernels2", False), ("k", False)]
)
def test_only_pod_with_exact_claim_name_uses_cache(seen, claim, keeps):
    of = cache()
    settle(seen, of)
    mount(seen, claim)
    assert bool(find_users(of, seen, [MODE])) == keeps


def test_a_bound_claim_without_its_labels_is_found_by_its_volume(seen):
    of = cache()
    settle(seen, of)
    claim = seen.find(LINK)
    # The watch selects by labels, so it is shown no more.
    seen.take_object_event(CLAIMS)("DELETED", claim)
    mount(seen, "kernels")
    assert [pod.name for pod in find_users(of, seen, [MODE])] == ["user"]
    seen.replace_pods([])
    assert (LINK, claim.metadata.uid) in {(each.name, each.uid) for each in MODE.plan_removal(of, seen).delete}


def test_claim_of_another_cache_is_not_owned(seen):
    settle(seen, cache())
    stranger = Cache(CacheMeta(name="kernels", namespace="other"), CacheSpec(), cache().status)
    assert not MODE.owns(stranger, LINK, seen.find(LINK))
    assert not MODE.plan_removal(stranger, seen).delete
