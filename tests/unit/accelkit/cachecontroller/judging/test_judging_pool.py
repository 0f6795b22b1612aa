"""Several images are judged at once; a registry that lets everybody wait does not keep the others from it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from support.waiting import until

from accelkit.cachecontroller.deciding.judgement import Judgement, Question, Refused
from accelkit.cachecontroller.judging import pool as module
from accelkit.cachecontroller.judging.pool import Judging
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.errors import ApiError
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
AWAY = Refused("RegistryUnavailable", "away", retryable=True)


class World:
    """A judge whose answers a test gives, and workers."""

    def __init__(self) -> None:
        self.caches: dict[str, Cache] = {}
        self.marked: asyncio.Queue[str] = asyncio.Queue()
        self.question: list[tuple[str, int]] = []
        self.answers: dict[str, object] = {}
        self.waiting: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        self.leading = True
        metrics = ControllerMetrics(
            leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
        )
        self.judging = Judging(
            self,
            metrics,
            find=self.caches.get,
            find_question=lambda cache: Question(cache.spec.image, "p"),
            mark=self.marked.put_nowait,
            leads=lambda: self.leading,
            workers=3,
        )

    def add(self, name: str, registry: str, namespace: str = "t") -> str:
        cache = Cache(CacheMeta(name=name, namespace=namespace), CacheSpec(image=f"{registry}/a/{name}:v1"))
        self.caches[cache.key] = cache
        self.judging.plan(cache, 0.0)
        return cache.key

    async def judge(self, cache: Cache, question: Question, attempts: int) -> Judgement:
        name = cache.metadata.name
        self.question.append((name, attempts))
        if name in self.waiting:
            await self.gates.setdefault(name, asyncio.Event()).wait()
        answer = self.answers.get(name, DIGEST)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Refused):
            return Judgement(question, 1.0, OTHER if answer is not AWAY else "", answer, attempts=attempts + 1)
        return Judgement(question, 1.0, str(answer))

    async def told(self) -> str:
        async with asyncio.timeout(60):
            return await self.marked.get()


@pytest.fixture
async def world():
    made = World()
    workers = [asyncio.create_task(made.judging.run()) for _ in range(3)]
    yield made
    for each in workers:
        each.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await each


async def test_judgement_is_stored_until_discarded(world):
    key = world.add("one", "q.io")
    assert await world.told() == key
    assert world.judging.find_judgement(key).digest == DIGEST
    world.judging.discard(key)
    assert world.judging.find_judgement(key) is None


async def test_failures_are_counted_until_registry_answers(world):
    world.answers["one"] = AWAY
    key = world.add("one", "q.io")
    await world.told()
    world.judging.plan(world.caches[key], 0.0)
    await world.told()
    assert world.question == [("one", 0), ("one", 1)]
    assert world.judging.find_judgement(key).attempts == 2
    # Another image is no former failure.
    world.answers["one"] = Refused("NoSignatures", "none")
    world.judging.plan(world.caches[key], 0.0)
    await world.told()
    assert world.judging.find_judgement(key).attempts == 1


async def test_unavailable_registry_blocks_at_most_one_worker(world):
    world.answers["first"] = AWAY
    world.add("first", "slow.io")
    await world.told()
    world.waiting |= {"a", "b", "c"}
    for name in ("a", "b", "c"):
        world.add(name, "slow.io")
    good = world.add("good", "q.io")
    assert await world.told() == good
    assert len([name for name, _ in world.question if name in world.waiting]) == 1


async def test_namespace_with_slow_registries_leaves_worker_for_other_namespaces(world):
    names = [f"drip-{number}" for number in range(6)]
    world.waiting |= set(names)
    for name in names:
        world.add(name, f"{name}.io")
    good = world.add("good", "q.io", "other")
    assert await world.told() == good
    assert [name for name, _ in world.question] == ["drip-0", "good", "drip-1"]


async def test_namespaces_are_judged_in_turn(world):
    names = [f"many-{number}" for number in range(20)]
    world.waiting |= {*names, "one", "two"}
    for name in names:
        world.add(name, f"{name}.io")
    for name in ("one", "two"):
        world.add(name, "q.io", name)
    await until(lambda: len(world.question) >= 3)
    # Who has one under way already comes after who has none.
    world.gates["one"].set()
    await world.told()
    await until(lambda: len(world.question) >= 4)
    assert [name for name, _ in world.question] == ["many-0", "one", "two", "many-1"]


async def test_slow_registry_blocks_at_most_one_worker_of_namespace(world, monkeypatch):
    monkeypatch.setattr(module, "_SLOW_SECONDS", 0.05)
    world.waiting |= {"first", "a", "b"}
    first = world.add("first", "drip.io")
    async with asyncio.timeout(60):
        await until(lambda: "first" in world.gates)
        await asyncio.sleep(0.06)
        world.add("a", "drip.io")
        # It is slow while it is under way, and when it has ended.
        expected = world.add("good", "q.io")
        assert await world.told() == expected
        assert [name for name, _ in world.question] == ["first", "good"]
        world.gates["first"].set()
        assert await world.told() == first
        await until(lambda: "a" in world.gates)
        world.add("b", "drip.io")
        expected = world.add("fine", "q.io")
        assert await world.told() == expected
    assert "b" not in world.gates
    # Others of that registry do not wait for it.
    expected = world.add("theirs", "drip.io", "other")
    assert await world.told() == expected


async def test_internal_error_for_one_image_does_not_affect_other_images(world, caplog):
    world.answers |= {"bad": ValueError("defect"), "silent": ApiError("away")}
    world.add("bad", "q.io")
    world.add("silent", "q.io")
    good = world.add("good", "q.io")
    assert await world.told() == good
    assert len(world.judging) == 2
    assert "failed with an internal error: cache=t/bad" in caplog.text


async def test_judgements_are_discarded_after_leadership_is_lost(world):
    world.leading = False
    world.add("one", "q.io")
    world.judging.clear()
    world.leading = True
    key = world.add("two", "q.io")
    assert await world.told() == key
    assert [name for name, _ in world.question] == ["two"]


async def test_image_in_progress_is_not_judged_twice(world):
    world.waiting.add("slow")
    slow = world.add("slow", "q.io")
    world.add("other", "q.io")
    await world.told()
    world.judging.plan(world.caches[slow], 0.0)
    world.add("third", "q.io")
    await world.told()
    assert sorted(world.question) == [("other", 0), ("slow", 0), ("third", 0)]
    assert len(world.judging) == 0
