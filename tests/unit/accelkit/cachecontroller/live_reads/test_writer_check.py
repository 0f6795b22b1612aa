"""No claim is made while a pod might write to it: what is looked at, when, and what is told."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    VOLUMES,
    ClaimPod,
    NamedObject,
    ObjectName,
    ObservedObject,
    Refusal,
)
from accelkit.cachecontroller.deciding.grants import list_grants
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.delivery import DeliveryPlan, Patch
from accelkit.cachecontroller.live_reads.pods import UnreadablePodError
from accelkit.cachecontroller.live_reads.writer_check import WriterCheck
from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus, PvcStatus
from accelkit.model.object_meta import ObjectMeta

DIGEST, NEXT = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "team/kernels"
PINNED = names.name_pinned_claim(KEY, DIGEST)
GUARD = 5.0
STATUS = CacheStatus(resolved_digest=DIGEST, mount_path="/cache", cache_bytes=1, delivery="node")
TAKEN = merge_conditions([], [state(ConditionType.READY, Reason.CLAIM_EXISTS, holds=False)], now="2026-01-01T00:00:00Z")


def cache(*, uid: str = "u", generation: int = 1, taken: bool = False) -> Cache:
    told = msgspec.structs.replace(STATUS, pvc_status={"team": PvcStatus(conditions=TAKEN)}) if taken else STATUS
    meta = CacheMeta(name="kernels", namespace="team", uid=uid, generation=generation)
    return Cache(meta, CacheSpec(image="q.io/a/b:v1"), told)


def writer(claim: str = "kernels", name: str = "early") -> ClaimPod:
    return ClaimPod("team", name, frozenset({claim}), frozenset({claim}))


class World:
    """A namespace, what the watch shows of its pods, and what the API server has of them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[float] = []
        self.looked_at: list[ObjectName] = []
        self.stored: list[ClaimPod] | Exception = []
        self.cluster = ClusterState(lambda _key: None, clock=lambda: self.now)
        self.cluster.replace_namespaces([NamedObject(ObjectMeta(name="team"))])
        self.check_ = WriterCheck(self.cluster, self.list_pods, GUARD, clock=lambda: self.now)

    async def list_pods(self, namespace: str, since: float) -> list[ClaimPod]:
        assert namespace == "team"
        self.asked.append(since)
        if isinstance(self.stored, Exception):
            raise self.stored
        return self.stored

    async def look_at_taken(self, claim: ObjectName) -> None:
        self.looked_at.append(claim)

    def show(self, *pods: ClaimPod) -> None:
        self.cluster._pods["team"] = {each.name: each for each in pods}

    async def check(self, of: Cache) -> DeliveryPlan:
        return await self.check_.check(of, NodeClaims().plan(of, self.cluster), self.look_at_taken)

    async def pass_guard(self, of: Cache) -> DeliveryPlan:
        self.check_.observe(of)
        self.now += GUARD + 0.1
        return await self.check(of)


@pytest.fixture
def world():
    return World()


def told(plan: DeliveryPlan) -> tuple[str, str, str]:
    ready = plan.states["team"].conditions[0]
    return ready.status, ready.reason, ready.message


async def test_claims_are_created_after_guard_period_and_fresh_pod_list(world):
    of = cache()
    world.check_.observe(of)
    plan = await world.check(of)
    assert not plan.create
    assert told(plan)[1] == "Pending"
    assert plan.wake_after == GUARD
    assert world.asked == []
    world.now += GUARD + 0.1
    # Another look at the same cache does not begin anew.
    world.check_.observe(of)
    plan = await world.check(of)
    assert {name.name for name, _ in plan.create} == {"kernels", PINNED}
    assert set(world.asked) == {105.0}


@pytest.mark.parametrize("claim", ["kernels", PINNED])
async def test_one_writing_pod_blocks_all_claims_of_cache_in_namespace(world, claim):
    world.stored = [writer(claim)]
    plan = await world.pass_guard(cache())
    assert not plan.create
    status, reason, message = told(plan)
    assert (status, reason) == ("False", "WritablePod")
    assert "team/early" in message
    assert claim in message
    assert "Recreate these pods" in message
    assert 0 < plan.wake_after <= 15
    world.stored = []
    world.now += 15
    assert len((await world.check(cache())).create) == 2


async def test_writing_pod_in_watch_makes_pod_list_unnecessary(world):
    world.show(writer())
    assert told(await world.pass_guard(cache()))[1] == "WritablePod"
    assert world.asked == []


async def test_read_only_pods_and_writers_of_other_claims_do_not_block_claims(world):
    reader = replace(writer(), writable=frozenset())
    world.stored = [reader, writer("other"), writer(names.name_pinned_claim(KEY, NEXT), "of-another-digest")]
    assert len((await world.pass_guard(cache())).create) == 2


@pytest.mark.parametrize("other", [{"uid": "v"}, {"generation": 2}], ids=["made anew", "another spec"])
async def test_recreated_cache_starts_new_guard_period(world, other):
    assert (await world.pass_guard(cache())).create
    again = cache(**other)
    world.check_.observe(again)
    plan = await world.check(again)
    assert not plan.create
    assert told(plan)[1] == "Pending"


async def test_guard_period_restarts_after_claim_exists_is_cleared(world):
    """Policies let pods write while it is said, so what they admitted meanwhile is asked for once it is not."""
    taken = cache(taken=True)
    assert (await world.pass_guard(cache())).create
    world.check_.observe(taken)
    world.now += 100
    plan = await world.check(taken)
    assert not plan.create
    assert told(plan)[1] == "Pending"
    # The watch shows no claims without our labels, so these are read.
    assert {each.name for each in world.looked_at} == {"kernels", PINNED}
    world.check_.observe(cache())
    plan = await world.check(cache())
    assert not plan.create
    world.now += GUARD + 0.1
    asked = world.now
    world.stored = [writer()]
    assert told(await world.check(cache()))[1] == "WritablePod"
    assert asked - 1 < world.asked[-1] < asked


async def test_claim_exists_is_reported_while_foreign_claim_exists(world):
    taken = cache(taken=True)
    world.check_.observe(taken)

    async def look_at_taken(claim: ObjectName) -> None:
        world.cluster.refuse(claim, Refusal("ClaimExists", "it is there and is not ours"))

    plan = await world.check_.check(taken, NodeClaims().plan(taken, world.cluster), look_at_taken)
    assert not plan.create
    assert told(plan)[:2] == ("False", "ClaimExists")


async def test_uncertain_status_write_counts_as_written(world):
    assert (await world.pass_guard(cache())).create
    world.check_.expect(KEY, cache(taken=True).status)
    assert not (await world.check(cache())).create


async def test_guard_period_restarts_after_leadership_is_regained(world):
    assert (await world.pass_guard(cache())).create
    world.check_.clear()
    world.check_.observe(cache())
    assert not (await world.check(cache())).create


async def test_claims_are_not_created_while_pods_are_unreadable(world):
    world.stored = UnreadablePodError("cannot check whether pod team/odd writes to a cache: invalid pod")
    plan = await world.pass_guard(cache())
    assert not plan.create
    assert told(plan)[1] == "WritablePod"
    assert "team/odd" in told(plan)[2]
    world.stored = ApiError("no answer")
    with pytest.raises(ApiError):
        await world.pass_guard(cache())


def test_list_grants_includes_claims_and_volumes_with_claim_reference():
    cluster = ClusterState(lambda _key: None)
    volume, filling = ObjectName(VOLUMES, "pvc-1"), ObjectName(CLAIMS, "cache-fill-1", "accelkit")
    claim, pinned = ObjectName(CLAIMS, "kernels", "team"), ObjectName(CLAIMS, PINNED, "team")
    cluster.put(
        volume, msgspec.convert({"metadata": {"name": "pvc-1"}, "spec": {"claimRef": {"name": "x"}}}, ObservedObject)
    )
    reference = {"name": PINNED, "namespace": "team", "uid": "1"}
    gift = Patch(volume, {"spec": {"claimRef": reference}})
    labels = Patch(ObjectName(VOLUMES, "other"), {"metadata": {"labels": {}}})
    own = ObjectName(VOLUMES, "accelkit-cache-1")
    made = {"spec": {"claimRef": {"name": "kernels", "namespace": "team"}}}
    plan = DeliveryPlan(create=((claim, {}), (filling, {}), (own, made)), patch=(gift, labels))
    assert list_grants(cache(), plan, cluster) == {claim: claim, own: claim, volume: pinned}
