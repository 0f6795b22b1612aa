"""Claims on nodes: what is made, mended and taken away, and whose claims are left alone."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from accelkit.cachecontroller.claim_pods import SeenPod
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.deciding.removal import describe_removal, find_users
from accelkit.cachecontroller.delivery import CLAIMS, VOLUMES, ObjectName, Refusal, Seen, SeenMeta
from accelkit.cachecontroller.seen_objects import SeenName, SeenObjects
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus
from accelkit.model.object_meta import ObjectMeta

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "team/kernels"
LINK = ObjectName(CLAIMS, "kernels", "team")
PINNED = ObjectName(CLAIMS, names.name_pinned_claim(KEY, DIGEST), "team")
MODE = NodeClaims()
NUMBERS = itertools.count()


def cache(**spec) -> Cache:
    status = CacheStatus(resolved_digest=DIGEST, mount_path="/cache", cache_bytes=3 << 20, delivery="node")
    return Cache(CacheMeta(name="kernels", namespace="team"), CacheSpec(image="q.io/a/b:v1", **spec), status)


@pytest.fixture
def seen():
    objects = SeenObjects(lambda _key: None, clock=lambda: 1000.0)
    objects.replace_namespaces([SeenName(ObjectMeta(name="team"))])
    return objects


def carry_out(seen: SeenObjects, plan) -> None:
    """What a patient API server and kube-controller-manager make of a plan."""
    for each in plan.delete:
        seen.take_object_event(each.name.kind)("DELETED", seen.find(each.name))
    for patch in plan.patch:
        found = seen.find(patch.name)
        body = patch.body
        if "metadata" in body:
            found.metadata.labels = {**(found.metadata.labels or {}), **body["metadata"]["labels"]}
            found.metadata.annotations = {**(found.metadata.annotations or {}), **body["metadata"]["annotations"]}
        if "spec" in body:
            found.spec["claimRef"]["uid"] = body["spec"]["claimRef"]["uid"]
    for name, manifest in plan.create:
        meta = {key: manifest["metadata"][key] for key in ("name", "labels", "annotations")}
        spec = {key: dict(value) if isinstance(value, dict) else value for key, value in manifest["spec"].items()}
        seen.put(name, Seen(SeenMeta(**meta, namespace=name.namespace, uid=f"uid-{next(NUMBERS)}"), spec))
    bind(seen)


def bind(seen: SeenObjects) -> None:
    for _, volume in seen.list_all(VOLUMES):
        claim = seen.find(ObjectName(CLAIMS, volume.spec["claimRef"]["name"], volume.spec["claimRef"]["namespace"]))
        if claim is not None and claim.metadata.uid == volume.spec["claimRef"]["uid"]:
            claim.status["phase"] = "Bound"


def settle(seen: SeenObjects, of: Cache, mode=MODE):
    for _ in range(6):
        plan = mode.plan(of, seen)
        if not (plan.create or plan.patch or plan.delete):
            return plan
        carry_out(seen, plan)
    pytest.fail("it does not come to rest")


def mount(seen: SeenObjects, claim: str, name: str = "user") -> None:
    volumes = [{"persistentVolumeClaim": {"claimName": claim}}]
    pod = {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {"volumes": volumes}}
    seen.take_pod_event("ADDED", msgspec.convert(pod, SeenPod))


def ready(plan, namespace: str = "team"):
    condition = plan.states[namespace].conditions[0]
    return condition.status, condition.reason


def test_a_namespace_gets_a_claim_on_the_link_and_one_on_the_digest(seen):
    plan = settle(seen, cache())
    paths = {name.name: each.spec["hostPath"] for name, each in seen.list_all(VOLUMES)}
    assert paths == {
        names.name_volume(KEY, "team"): {"path": names.build_link_path(KEY), "type": "Directory"},
        names.name_volume(KEY, "team", DIGEST): {"path": names.build_cache_path(DIGEST, "/cache"), "type": "Directory"},
    }
    volume = seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team")))
    assert volume.spec["capacity"] == {"storage": "3Mi"}
    assert volume.spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume.spec["storageClassName"] == ""
    assert "nodeAffinity" not in volume.spec
    assert seen.find(LINK).spec["accessModes"] == ["ReadWriteOnce"]
    assert ready(plan) == ("True", "Ready")
    assert (plan.states["team"].pvc_name, plan.states["team"].pvc_owner) == ("kernels", "Agent")


def test_no_volume_is_made_before_the_claim_is_known_to_be_ours(seen):
    # One of that name that is not ours would be bound to it.
    plan = MODE.plan(cache(), seen)
    assert {name.kind for name, _ in plan.create} == {CLAIMS}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"volumeName": "something-else", "storageClassName": ""},
        {"volumeName": names.name_volume(KEY, "team"), "storageClassName": "fast"},
    ],
    ids=["without a volume", "another volume", "another class"],
)
def test_a_claim_that_says_it_is_ours_and_is_not_stays_as_it_is(seen, spec):
    meta = SeenMeta(
        name="kernels",
        namespace="team",
        uid="theirs",
        labels=names.build_labels(KEY),
        annotations={names.CACHE_ANNOTATION: KEY},
    )
    seen.put(LINK, Seen(meta, spec))
    plan = settle(seen, cache())
    assert ready(plan) == ("False", "ClaimExists")
    assert seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team"))) is None
    removal = MODE.plan_removal(cache(), seen)
    assert LINK not in {each.name for each in removal.delete}
    mount(seen, "kernels")
    assert find_users(cache(), seen, [MODE]) == []


def test_a_name_that_was_taken_is_told_and_not_tried_again_at_once(seen):
    seen.refuse(LINK, Refusal("ClaimExists", "it is there"))
    plan = settle(seen, cache())
    assert ready(plan) == ("False", "ClaimExists")
    assert plan.wake_after > 0


def test_a_claim_of_the_digest_that_is_not_ours_is_told_too(seen):
    seen.refuse(PINNED, Refusal("ClaimExists", "it is there"))
    assert ready(settle(seen, cache())) == ("False", "ClaimExists")


def test_a_claim_that_somebody_deleted_is_made_anew_and_gets_its_volume(seen):
    settle(seen, cache())
    former = seen.find(LINK)
    seen.take_object_event(CLAIMS)("DELETED", former)
    # Nobody else may have the volume meanwhile.
    assert not MODE.plan(cache(), seen).patch
    assert ready(settle(seen, cache())) == ("True", "Ready")
    uid = seen.find(LINK).metadata.uid
    assert uid != former.metadata.uid
    assert seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team"))).spec["claimRef"]["uid"] == uid


def test_a_claim_that_is_being_deleted_is_waited_for(seen):
    settle(seen, cache())
    seen.find(LINK).metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    plan = MODE.plan(cache(), seen)
    assert not plan.create
    assert ready(plan) == ("False", "Deleting")


def test_labels_that_a_tenant_took_off_are_put_back(seen):
    settle(seen, cache())
    seen.find(LINK).metadata.labels = None
    settle(seen, cache())
    assert names.build_labels(KEY).items() <= seen.find(LINK).metadata.labels.items()


def test_a_namespace_that_is_missing_or_leaves_gets_nothing(seen):
    of = Cache(CacheMeta(name="kernels"), CacheSpec(workload_namespaces=("gone", "leaving")), cache().status)
    seen.replace_namespaces([SeenName(ObjectMeta(name="leaving", deletion_timestamp="2026-01-01T00:00:00Z"))])
    plan = MODE.plan(of, seen)
    assert not plan.create
    assert ready(plan, "leaving") == ("False", "Deleting")


def test_modes_that_claims_on_nodes_cannot_have_are_refused(seen):
    plan = MODE.plan(cache(access_modes=("ReadWriteOncePod",)), seen)
    assert not plan.create
    assert ready(plan) == ("False", "AccessModeUnsupported")


def test_another_digest_gets_a_claim_beside_the_former_one(seen):
    of = cache()
    settle(seen, of)
    mount(seen, PINNED.name)
    of.status = CacheStatus(resolved_digest=OTHER, previous_digests=[DIGEST], mount_path="/elsewhere", delivery="node")
    settle(seen, of)
    former = seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team", DIGEST)))
    # Pods that run see what they saw.
    assert former.spec["hostPath"]["path"] == names.build_cache_path(DIGEST, "/cache")
    of.status.previous_digests = []
    # Nothing of it goes as long as a pod has it.
    assert not MODE.plan(of, seen).delete
    seen.replace_pods([])
    assert {each.name.name for each in MODE.plan(of, seen).delete} == {
        PINNED.name,
        names.name_volume(KEY, "team", DIGEST),
    }


def test_another_mount_path_has_claim_and_volume_of_the_digest_made_anew(seen):
    of = cache()
    settle(seen, of)
    of.status.mount_path = "/elsewhere"
    settle(seen, of)
    volume = seen.find(ObjectName(VOLUMES, names.name_volume(KEY, "team", DIGEST)))
    assert volume.spec["hostPath"]["path"] == names.build_cache_path(DIGEST, "/elsewhere")


def test_a_namespace_that_is_no_longer_named_is_left(seen):
    of = Cache(CacheMeta(name="kernels"), CacheSpec(workload_namespaces=("team",)), cache().status)
    settle(seen, of)
    of.spec = CacheSpec(workload_namespaces=())
    assert len(MODE.plan(of, seen).delete) == 4


def test_what_is_deleted_is_all_of_a_cache_that_no_pod_uses(seen):
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
def test_a_pod_that_mounts_a_claim_of_a_longer_name_keeps_no_cache(seen, claim, keeps):
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


def test_the_claim_of_another_cache_is_not_ours(seen):
    settle(seen, cache())
    stranger = Cache(CacheMeta(name="kernels", namespace="other"), CacheSpec(), cache().status)
    assert not MODE.owns(stranger, LINK, seen.find(LINK))
    assert not MODE.plan_removal(stranger, seen).delete


def test_a_claim_that_waits_is_touched_once_kubernetes_knows_its_volume(seen):
    settle(seen, cache())
    claims, volumes = ([found for _, found in seen.list_all(kind)] for kind in (CLAIMS, VOLUMES))
    assert MODE.plan(cache(), seen).wake_after == 0
    for each in claims:
        each.status["phase"] = "Pending"
    for each in volumes:
        each.status["phase"] = "Pending"
    assert not MODE.plan(cache(), seen).patch
    for each in volumes:
        each.status["phase"] = "Bound"
    plan = MODE.plan(cache(), seen)
    assert {patch.name.name for patch in plan.patch} == {each.metadata.name for each in claims}
    assert plan.wake_after == 2
    carry_out(seen, plan)
    for each in claims:
        each.status["phase"] = "Pending"
    # Not at once again, but soon.
    assert not MODE.plan(cache(), seen).patch
    seen._clock = lambda: 1002.5
    assert len(MODE.plan(cache(), seen).patch) == len(claims)
