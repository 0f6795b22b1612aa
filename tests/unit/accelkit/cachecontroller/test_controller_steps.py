"""A controller that is killed before or after any of its writes: the next one ends where one that lived would have."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from accelkit.cachecontroller.applier import Applier, build_cache_path
from accelkit.cachecontroller.claim_pods import SeenPod, read_claim_pod
from accelkit.cachecontroller.controller import Controller
from accelkit.cachecontroller.deciding.judgement import Judgement, Question
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.delivery import CLAIMS, VOLUMES, Seen
from accelkit.cachecontroller.fresh_looks.writers import WriterCheck
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.news import News
from accelkit.cachecontroller.seen_objects import SeenName, SeenObjects
from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, Delivery
from accelkit.kube.events import Events
from accelkit.model.object_meta import ObjectMeta

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "team/kernels"
CACHE = build_cache_path(Cache(CacheMeta(name="kernels", namespace="team")))
MOST_PASSES = 30


class Killed(BaseException):
    """As by SIGKILL: nothing of ours runs any more."""


class Api:
    """An API server in memory, which sees the process die at one of its writes."""

    def __init__(self):
        self.objects: dict[str, dict] = {}
        self.numbers = itertools.count(1)
        self.die_at, self.late, self.writes = 0, False, 0

    def write(self, path: str, body: dict | None) -> bytes:
        self.writes += 1
        dies = self.writes == self.die_at
        if dies and not self.late:
            raise Killed
        if body is None:
            del self.objects[path]
        else:
            body["metadata"]["resourceVersion"] = str(next(self.numbers))
            self.objects[path] = body
        if dies:
            raise Killed
        return msgspec.json.encode(body)

    async def get(self, path: str) -> bytes:
        if path not in self.objects:
            raise ApiError("there is none", status=404, reason="NotFound")
        return msgspec.json.encode(self.objects[path])

    async def post(self, collection: str, body: object) -> bytes:
        made = msgspec.json.decode(msgspec.json.encode(body))
        path = f"{collection}/{made['metadata']['name']}"
        if path in self.objects:
            raise ApiError("it is there", status=409, reason="AlreadyExists")
        made["metadata"]["uid"] = f"uid-{next(self.numbers)}"
        return self.write(path, made)

    async def patch(self, path: str, body: object, *, kind: str = "merge") -> bytes:
        path = path.removesuffix("/status")
        present = msgspec.json.decode(await self.get(path))
        if kind == "json":
            present["status"] = msgspec.json.decode(msgspec.json.encode(body[1]["value"]))
        else:
            merge(present, msgspec.json.decode(msgspec.json.encode(body)))
        if present["metadata"].get("deletionTimestamp") and not present["metadata"].get("finalizers"):
            return self.write(path, None)
        return self.write(path, present)

    async def delete(self, path: str, options: dict) -> bytes:
        present = msgspec.json.decode(await self.get(path))
        assert present["metadata"]["uid"] == options["preconditions"]["uid"]
        return self.write(path, None)


def merge(into: dict, patch: dict) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


class KnownJudgements:
    """Each image is verified at once, as the digest that the registry has now."""

    def __init__(self, digest: str):
        self.digest = digest

    def find_judgement(self, _key: str) -> Judgement:
        return Judgement(Question("q.io/a/b:v1", "p"), 1000.0, self.digest)

    def plan(self, *_: object) -> None:
        pass

    def forget(self, *_: object) -> None:
        pass


class Coverage:
    def ask(self, _cache: Cache) -> Question:
        return Question("q.io/a/b:v1", "p")


def start(api: Api, digest: str, pods: list[SeenPod]) -> tuple[Controller, SeenObjects]:
    """A controller that knows what the API server shows, and nothing else."""
    seen = SeenObjects(lambda _key: None, clock=lambda: 1000.0)
    seen.replace_namespaces([SeenName(ObjectMeta(name="team"))])
    seen.replace_pods(pods)
    metrics = ControllerMetrics(
        leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
    )
    applier = Applier(api, seen, metrics, lambda: True)
    news = News(Events(api, "test", "here"))

    async def list_pods(_namespace: str, _since: float) -> list:
        return [each for pod in pods if (each := read_claim_pod(pod)) is not None]

    writers = WriterCheck(seen, list_pods, 0.0)
    controller = Controller(seen, Coverage(), applier, news, writers=writers, metrics=metrics, again_seconds=600)
    controller.modes = {Delivery.NODE: NodeClaims()}
    controller.judging = KnownJudgements(digest)
    show(api, seen)
    return controller, seen


def show(api: Api, seen: SeenObjects) -> None:
    """What the watches bring."""
    for kind, part in ((CLAIMS, "/persistentvolumeclaims/"), (VOLUMES, "/persistentvolumes/")):
        objects = [each for path, each in api.objects.items() if part in path]
        for each in objects if kind is VOLUMES else ():
            # Kubernetes has looked at it.
            each["status"] = {"phase": "Bound"}
        seen.replace_objects(kind)(msgspec.convert(objects, list[Seen]))
    caches = [each for path, each in api.objects.items() if path == CACHE]
    seen.replace_caches(of_cluster=False)(msgspec.convert(caches, list[Cache]))


async def settle(api: Api, digest: str, pods: list[SeenPod]) -> None:
    controller, seen = start(api, digest, pods)
    for _ in range(MOST_PASSES):
        before = api.writes
        await controller._pass(KEY)
        show(api, seen)
        if api.writes == before:
            return
    pytest.fail("it does not come to rest")


async def live(api: Api, digest: str = DIGEST, pods: list[SeenPod] | None = None) -> None:
    """Let controllers work until nothing is left to do, one after another where they die."""
    try:
        await settle(api, digest, pods or [])
    except Killed:
        await settle(api, digest, pods or [])


def create() -> Api:
    api = Api()
    cache = Cache(CacheMeta(name="kernels", namespace="team", uid="u", generation=1), CacheSpec(image="q.io/a/b:v1"))
    api.write(CACHE, msgspec.to_builtins(cache))
    api.writes = 0
    return api


def outline(api: Api) -> dict[str, object]:
    """What is there, without what differs from one life to the next."""
    found: dict[str, object] = {}
    for path, each in api.objects.items():
        if "/events/" in path:
            continue
        status = each.get("status", {})
        conditions = {(one["type"], one["status"], one["reason"]) for one in status.get("conditions", ())}
        digests = (status.get("resolvedDigest"), *status.get("previousDigests", ()))
        found[path] = (
            each["metadata"].get("finalizers"),
            digests,
            conditions,
            sorted(each["metadata"].get("labels", {})),
        )
    return found


def delete(api: Api) -> None:
    api.objects[CACHE]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def user_of_first() -> SeenPod:
    volumes = [{"persistentVolumeClaim": {"claimName": names.name_pinned_claim(KEY, DIGEST)}}]
    meta = {"name": "user", "namespace": "team", "uid": "user"}
    return msgspec.convert({"metadata": meta, "spec": {"volumes": volumes}}, SeenPod)


async def grown(api: Api) -> None:
    await live(api)


async def moved(api: Api) -> None:
    await live(api, OTHER, [user_of_first()])


async def deleted(api: Api) -> None:
    await live(api)


STORIES = {"created": [grown], "another digest": [grown, moved], "deleted": [grown, delete, deleted]}


async def tell(story: list, api: Api, die_at: int = 0, *, late: bool = False) -> int:
    """Let a story happen, its last part with a death; return how many writes that part had until then."""
    for part in story[:-1]:
        if (going := part(api)) is not None:
            await going
    api.writes, api.die_at, api.late = 0, die_at, late
    await story[-1](api)
    return api.writes


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_a_death_at_any_write_changes_nothing_of_the_end(story, late):
    api = create()
    writes = await tell(story, api)
    expected = outline(api)
    assert writes > 3
    for number in range(1, writes + 1):
        other = create()
        await tell(story, other, number, late=late)
        assert outline(other) == expected, f"died at write {number} of {writes}"


async def test_what_is_deleted_leaves_nothing():
    api = create()
    await tell(STORIES["deleted"], api)
    assert outline(api) == {}
