"""Claims in workload namespaces, where tenants write what they like."""

from delivery_passes import PLAIN, one_pass, ready_of, settle
from pretended_cluster import SETTINGS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ObjectName, Refusal
from accelkit.cachecontroller.filling import NamespaceDelivery


def test_foreign_claim_is_not_modified():
    cluster = Cluster()
    foreign = {"metadata": {}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "theirs"}}
    cluster.put(PLAIN, foreign)
    for _ in range(20):
        plan = one_pass(cluster, cache_of())
        cluster.turn()
    assert ready_of(plan).reason == "ClaimExists"
    assert cluster.objects[PLAIN]["spec"] == foreign["spec"]
    assert all(name.name != "llama" for name in (each.name for each in plan.delete))


def test_claim_with_copied_labels_is_not_accepted():
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


def test_claim_deleted_by_tenant_is_filled_again():
    cluster = Cluster()
    cache = cache_of()
    settle(cluster, cache)
    former = cluster.objects[PLAIN]["spec"]["volumeName"]
    cluster.delete(PLAIN)
    plan = settle(cluster, cache)
    assert ready_of(plan).status == "True"
    assert plan.states["team"].pv_name != former


def test_owner_reference_added_by_tenant_is_removed_from_claim():
    """A pod that owns a claim called POD-VOLUME may mount it by a generic ephemeral volume."""
    cluster = Cluster()
    settle(cluster, cache_of())
    owner = {"kind": "Pod", "name": "llama", "uid": "x", "controller": True}
    cluster.objects[PLAIN]["metadata"]["ownerReferences"] = [owner]
    (patch,) = one_pass(cluster, cache_of()).patch
    assert patch.uid == cluster.objects[PLAIN]["metadata"]["uid"]
    assert not cluster.objects[PLAIN]["metadata"].get("ownerReferences")
    assert not one_pass(cluster, cache_of()).patch


def test_quota_refusal_of_claim_is_reported():
    cluster = Cluster()
    cluster.refusals[PLAIN] = Refusal("Forbidden", "exceeded quota: storage")
    for _ in range(20):
        plan = NamespaceDelivery(SETTINGS).plan(cache_of(), cluster)
        cluster.carry_out(type(plan)(create=tuple(e for e in plan.create if e[0] != PLAIN), patch=plan.patch))
        cluster.turn()
    assert ready_of(plan).reason == "Forbidden"
    assert "exceeded quota: storage" in ready_of(plan).message
