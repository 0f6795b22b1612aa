"""Claims on nodes that wait, that others take or change, and that no cache guards any more."""

import pytest
from node_claim_passes import LINK, MODE, PINNED, cache, carry_out, mount, ready, settle, show, wait

from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ObservedMetadata, ObservedObject
from accelkit.cachecontroller.deciding.given_claims import admit_taken, admit_writers, list_given_claims
from accelkit.gkm.conditions import ConditionType, find_condition
from accelkit.gkm.objects import Cache, CacheMeta


@pytest.fixture
def seen():
    return show()


def test_pending_claim_is_patched_after_its_volume_is_bound(seen):
    settle(seen, cache())
    claims, volumes = ([found for _, found in seen.list_all(kind)] for kind in (CLAIMS, VOLUMES))
    assert MODE.plan(cache(), seen).wake_after == 0
    for each in claims:
        each.metadata.creation_timestamp = "1970-01-01T00:16:40Z"
    wait(claims, volumes, "Pending")
    assert not MODE.plan(cache(), seen).patch
    wait(claims, volumes, "Bound")
    plan = MODE.plan(cache(), seen)
    assert {patch.name.name for patch in plan.patch} == {each.metadata.name for each in claims}
    assert plan.wake_after == 2
    carry_out(seen, plan)
    wait(claims, volumes, "Bound")
    # Not at once again, but soon.
    assert not MODE.plan(cache(), seen).patch
    seen._clock = lambda: 1002.5
    assert len(MODE.plan(cache(), seen).patch) == len(claims)


def test_claim_that_never_binds_is_patched_less_often_and_reported(seen):
    settle(seen, cache())
    claims, volumes = ([found for _, found in seen.list_all(kind)] for kind in (CLAIMS, VOLUMES))
    for each in claims:
        each.metadata.creation_timestamp = "1970-01-01T00:16:40Z"
    touches = 0
    for second in range(3600):
        wait(claims, volumes, "Bound")
        seen._clock = lambda second=second: 1000.0 + second
        plan = MODE.plan(cache(), seen)
        touches += len(plan.patch)
        carry_out(seen, plan)
    assert touches // len(claims) == 15 + 15 + 11
    wait(claims, volumes, "Bound")
    plan = MODE.plan(cache(), seen)
    assert plan.wake_after == 300
    assert ready(plan) == ("False", "NotBound")


def test_owner_reference_added_by_tenant_is_removed(seen):
    settle(seen, cache())
    seen.find(PINNED).metadata.owner_references = [{"kind": "Pod", "name": "kernels", "uid": "x", "controller": True}]
    (patch,) = MODE.plan(cache(), seen).patch
    assert (patch.name, patch.uid) == (PINNED, seen.find(PINNED).metadata.uid)
    assert patch.body["metadata"]["ownerReferences"] is None
    settle(seen, cache())
    assert not seen.find(PINNED).metadata.owner_references


@pytest.mark.parametrize("taken", [LINK, PINNED])
def test_namespace_with_conflicting_claim_gets_no_claims(seen, taken):
    """While ClaimExists is said, pods may write to claims with any name of the cache."""
    seen.put(
        taken, ObservedObject(ObservedMetadata(name=taken.name, namespace="team", uid="theirs"), {"volumeName": "x"})
    )
    plan = settle(seen, cache())
    assert ready(plan) == ("False", "ClaimExists")
    assert [name for name, _ in seen.list_all(CLAIMS)] == [taken]
    assert not seen.list_all(VOLUMES)


def test_claims_are_deleted_if_tenant_creates_claim_of_same_name(seen):
    of = cache()
    settle(seen, of)
    seen.take_object_event(CLAIMS)("DELETED", seen.find(LINK))
    seen.put(
        LINK, ObservedObject(ObservedMetadata(name="kernels", namespace="team", uid="theirs"), {"volumeName": "x"})
    )
    plan = MODE.plan(of, seen)
    assert ready(plan) == ("False", "ClaimExists")
    given = list_given_claims(of, seen, [MODE])
    assert given == [PINNED]
    # Not said before they are gone.
    assert admit_taken(plan.states, given)["team"].conditions[0].reason == "ClaimTaken"
    carry_out(seen, plan)
    assert list_given_claims(of, seen, [MODE]) == []
    assert admit_taken(plan.states, [])["team"].conditions[0].reason == "ClaimExists"


def test_pods_that_mount_claim_writable_are_reported(seen):
    of = cache()
    settle(seen, of)
    given = list_given_claims(of, seen, [MODE])
    mount(seen, "kernels", "reader")
    assert admit_writers(of.status, given, seen) is of.status
    mount(seen, "kernels", "writer", containers=[{"volumeMounts": [{"name": "files"}]}])
    degraded = find_condition(admit_writers(of.status, given, seen).conditions, ConditionType.DEGRADED)
    assert (degraded.status, degraded.reason) == ("True", "WritablePod")
    assert "team/writer" in degraded.message
    assert "reader" not in degraded.message


def test_claim_of_deleted_cache_is_deleted_despite_its_pods(seen):
    """Somebody took the finalizer off: no admission policy knows of the claims any more."""
    settle(seen, cache())
    mount(seen, "kernels")
    gone = Cache(CacheMeta(name="kernels", namespace="team"))
    assert len(MODE.plan_removal(gone, seen).delete) == 4
