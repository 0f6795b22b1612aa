"""A controller that is killed before or after any of its writes: the next one ends where one that lived would have."""

from __future__ import annotations

import re

import msgspec
import pytest
from mortal_api import Api, Killed
from pretended_cluster import OURS, SETTINGS

from accelkit.cachecontroller.cache_events import CacheEvents
from accelkit.cachecontroller.claim_pods import ObservedPod, read_claim_pod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, NamedObject
from accelkit.cachecontroller.controller import Controller
from accelkit.cachecontroller.deciding.judgement import Judgement, Question
from accelkit.cachecontroller.live_reads.writer_check import WriterCheck
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.plan_writer import PlanWriter, build_cache_path
from accelkit.cachecontroller.service import build_modes
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, Delivery, SignerPolicyObject
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kube.events import Events
from accelkit.model.object_meta import ObjectMeta

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "team/kernels"
CACHE = build_cache_path(Cache(CacheMeta(name="kernels", namespace="team")))
MOST_PASSES = 30
NOW = 1_000_000.0
MODES = build_modes(SETTINGS)
DELIVERIES = list(MODES)
# Of what others make.
UID = re.compile(r"uid-[0-9]+")


class KnownJudgements:
    """Each image is verified at once, as the digest that the registry has now."""

    def __init__(self, digest: str):
        self.digest = digest

    def find_judgement(self, _key: str) -> Judgement:
        # Its files work at any path, so that they may come as an image.
        labels = ImageLabels(format="vllm")
        return Judgement(Question("q.io/a/b:v1", "p"), NOW, self.digest, labels=labels, relocatable=True)

    def plan(self, *_: object) -> None:
        pass

    def discard(self, *_: object) -> None:
        pass


class Coverage:
    def find_question(self, _cache: Cache) -> Question:
        return Question("q.io/a/b:v1", "p")


def start(api: Api, digest: str, pods: list[ObservedPod]) -> tuple[Controller, ClusterState]:
    """A controller that knows what the API server shows, and nothing else."""
    seen = ClusterState(lambda _key: None, clock=lambda: NOW, home=OURS)
    seen.replace_namespaces([NamedObject(ObjectMeta(name="team")), NamedObject(ObjectMeta(name=OURS))])
    seen.replace_policies([SignerPolicyObject(CacheMeta(name="acme"), {"images": ["q.io/**"], "signers": []})])
    seen.replace_pods(pods)
    metrics = ControllerMetrics(
        leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
    )
    applier = PlanWriter(api, seen, metrics, lambda: True)
    news = CacheEvents(Events(api, "test", "here"))

    async def list_pods(_namespace: str, _since: float) -> list:
        return [each for pod in pods if (each := read_claim_pod(pod)) is not None]

    writers = WriterCheck(seen, list_pods, 0.0)
    controller = Controller(seen, Coverage(), applier, news, writers=writers, metrics=metrics, again_seconds=600)
    controller.modes = MODES
    controller.judging = KnownJudgements(digest)
    show(api, seen)
    return controller, seen


def show(api: Api, seen: ClusterState) -> None:
    """What the watches bring."""
    for kind in (CLAIMS, VOLUMES, *(watch.kind for mode in MODES.values() for watch in mode.watches)):
        seen.replace_objects(kind)(api.show(kind))
    caches = [each for path, each in api.objects.items() if path == CACHE]
    seen.replace_caches(of_cluster=False)(msgspec.json.decode(msgspec.json.encode(caches), type=list[Cache]))


async def settle(api: Api, digest: str, pods: list[ObservedPod]) -> None:
    controller, seen = start(api, digest, pods)
    for _ in range(MOST_PASSES):
        before = api.written
        await controller._pass(KEY)
        others = api.turn()
        show(api, seen)
        if api.written == before and not others:
            return
    pytest.fail("it does not come to rest")


async def live(api: Api, digest: str = DIGEST, pods: list[ObservedPod] | None = None) -> None:
    """Let controllers work until nothing is left to do, one after another where they die."""
    try:
        await settle(api, digest, pods or [])
    except Killed:
        await settle(api, digest, pods or [])


def create(delivery: Delivery) -> Api:
    api = Api()
    spec = CacheSpec(image="q.io/a/b:v1", delivery=delivery)
    cache = Cache(CacheMeta(name="kernels", namespace="team", uid="u", generation=1), spec)
    api.objects[CACHE] = msgspec.to_builtins(cache)
    return api


def outline(api: Api) -> list[tuple]:
    """What is there, without what differs from one life to the next."""
    found = []
    for path, each in api.objects.items():
        if "/events/" in path:
            continue
        status = each.get("status", {})
        conditions = status.get("conditions", ()) if path == CACHE else ()
        digests = (status.get("resolvedDigest"), *status.get("previousDigests", ()))
        found.append(
            (
                UID.sub("uid", path),
                each["metadata"].get("finalizers"),
                digests,
                sorted((one["type"], one["status"], one["reason"]) for one in conditions),
                sorted(each["metadata"].get("labels", {})),
            )
        )
    return sorted(found, key=str)


def delete(api: Api) -> None:
    meta = api.objects[CACHE]["metadata"]
    if meta.get("finalizers"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        del api.objects[CACHE]


def user_of_first(delivery: Delivery) -> ObservedPod:
    """A pod that got the first digest."""
    claim = names.name_pinned_claim(KEY, DIGEST) if delivery is Delivery.NODE else "kernels"
    volume: dict = {"persistentVolumeClaim": {"claimName": claim}}
    if delivery is Delivery.IMAGE:
        volume = {"image": {"reference": f"q.io/a/b@{DIGEST}"}}
    meta = {"name": "user", "namespace": "team", "uid": "user"}
    return msgspec.convert({"metadata": meta, "spec": {"volumes": [volume], "nodeName": "n"}}, ObservedPod)


async def grown(api: Api, _delivery: Delivery) -> None:
    await live(api)


async def moved(api: Api, delivery: Delivery) -> None:
    await live(api, OTHER, [user_of_first(delivery)])


async def deleted(api: Api, _delivery: Delivery) -> None:
    delete(api)
    await live(api)


STORIES = {"created": [grown], "another digest": [grown, moved], "deleted": [grown, deleted]}


async def tell(story: list, delivery: Delivery, die_at: int = 0, *, late: bool = False) -> Api:
    """Let a story happen, its last part with a death; its writes are those of that part."""
    api = create(delivery)
    for part in story[:-1]:
        await part(api, delivery)
    api.written, api.die_at, api.late = 0, die_at, late
    await story[-1](api, delivery)
    return api


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_restart_after_any_write_reaches_same_final_state(story, delivery, late):
    lived = await tell(story, delivery)
    assert lived.written >= 2
    for number in range(1, lived.written + 1):
        other = await tell(story, delivery, number, late=late)
        assert outline(other) == outline(lived), f"died at write {number} of {lived.written}"


@pytest.mark.parametrize("delivery", DELIVERIES)
async def test_deleted_cache_leaves_no_objects(delivery):
    assert outline(await tell(STORIES["deleted"], delivery)) == []


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_cache_deleted_during_creation_leaves_no_objects(delivery, late):
    for number in range(1, (await tell(STORIES["created"], delivery)).written + 1):
        api = create(delivery)
        api.die_at, api.late = number, late
        with pytest.raises(Killed):
            await settle(api, DIGEST, [])
        await deleted(api, delivery)
        assert outline(api) == [], f"died at write {number}"


async def test_cache_keeps_finalizer_while_its_claims_exist():
    api = await tell(STORIES["created"], Delivery.NODE)
    api.protects = True
    await deleted(api, Delivery.NODE)
    ready = next(each for each in api.objects[CACHE]["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Deleting")
    assert "team/kernels" in ready["message"]
    api.remove_finalizers()
    await live(api)
    assert outline(api) == []


@pytest.mark.parametrize(
    ("delivery", "ready"),
    [
        # Nodes have yet to say something.
        (Delivery.NODE, ("False", "Pending")),
        (Delivery.NAMESPACE, ("True", "Ready")),
        (Delivery.IMAGE, ("True", "Ready")),
    ],
)
async def test_uninterrupted_controller_reaches_final_state(delivery, ready):
    api = await tell(STORIES["another digest"], delivery)
    status = api.objects[CACHE]["status"]
    assert (status["resolvedDigest"], status["previousDigests"]) == (OTHER, [DIGEST])
    told = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert told["Ready"] == ready
    assert told["Verified"] == ("True", "Verified")
