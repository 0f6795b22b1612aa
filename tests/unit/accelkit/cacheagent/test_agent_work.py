"""Work under way: how it ends, what is remembered of it, and that no cache's defect ends the agent."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path

import pytest
from agent_worlds import LABELS, MOUNT, NODE, A, B, desired, folder, image_facts, stored, world

from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.planning.pauses import FREE, extend
from accelkit.cacheagent.planning.plan import AgentPlan, make_plan
from accelkit.cacheagent.planning.world import ImagePolicies
from accelkit.cacheagent.policy_index import PolicyIndex
from accelkit.cacheagent.workers import Workers
from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.extraction import CompletionRecord, ExtractionResult
from accelkit.kernelcache.extraction.folder import Place


class Preparing:
    """What speaks with registries, as a test has it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.image_facts: list[str] = []

    async def _answer(self) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def read_image_facts(self, known):
        self.image_facts.append(known.key)
        await self._answer()
        return image_facts(7)

    async def extract(self, known, _policies, _node, _room):
        await self._answer()
        record = CompletionRecord(
            image=str(known.image), format="triton", mount_path=MOUNT, files=1, size_bytes=7, policy_digest="p",
            signatures=(), extracted_at="", verified_at="2026-11-24T00:00:00+00:00", labels=LABELS,
        )  # fmt: skip
        return ExtractionResult(Place(known.digest, self.root / known.folder, MOUNT), record, fresh=True)


class Stand:
    def __init__(self, root: Path) -> None:
        self.preparing = Preparing(root)
        self.metrics = Metrics()
        self.store = Store(root)
        self.ended = asyncio.Event()
        self.workers = Workers(
            self.store, self.preparing, PolicyIndex(root), self.metrics, node=lambda: NODE.facts, on_end=self.ended.set
        )  # type: ignore[arg-type]

    def plan(self, *desired_caches, **changes) -> AgentPlan:
        return make_plan(
            world(
                *desired_caches,
                slots=self.workers.slots,
                attempts=self.workers.attempts,
                pauses=self.workers.pauses,
                busy=self.workers.promised,
                **changes,
            )
        )

    async def work(self, *desired_caches, **changes) -> None:
        for each in self.plan(*desired_caches, **changes).work:
            self.workers.begin(each)
        while self.workers.promised:
            self.ended.clear()
            async with asyncio.timeout(60):
                await self.ended.wait()

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def stand(tmp_path) -> Stand:
    stand = Stand(tmp_path)
    await stand.store.open()
    return stand


async def test_labels_are_read_before_files_are_extracted(stand):
    await stand.work(desired())
    assert stand.workers.image_facts == {A: image_facts(7)}
    await stand.work(desired(), image_facts=stand.workers.image_facts)
    assert set(stand.store.stored) == {folder(A)}
    assert stand.count("accelkit_kernel_cache_extractions_total") == 1
    assert stand.workers.slots == 4


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RegistryError("away", retryable=True), "RegistryUnavailable"),
        (CacheError("a path leads out"), "ExtractionFailed"),
        (OSError(errno.ENOSPC, "No space left"), "NodeFull"),
        (OSError(errno.EIO, "broken"), "Retrying"),
        (ZeroDivisionError("a defect of ours"), "Retrying"),
    ],
)
async def test_failed_work_is_recorded_counted_and_frees_slot(stand, error, reason):
    stand.preparing.error = error
    await stand.work(desired())
    attempt = stand.workers.attempts["team/add"]
    assert (attempt.reason, attempt.failures) == (reason, 1)
    assert stand.count("accelkit_kernel_cache_failures_total", reason=reason) == 1
    assert (stand.workers.slots, stand.workers.promised) == (4, {})


async def test_failed_attempt_is_discarded_after_success_or_with_its_cache(stand):
    stand.preparing.error = CacheError("once")
    await stand.work(desired(), image_facts={A: image_facts()})
    stand.preparing.error = None
    await stand.work(desired(), image_facts={A: image_facts()}, now=1e12)
    assert stand.workers.attempts == {}
    stand.preparing.error = CacheError("x")
    await stand.work(desired(), desired(B, "team/other"))
    assert set(stand.workers.attempts) == {"team/add", "team/other"}
    stand.workers.discard({"team/other": desired(B, "team/other")})
    assert set(stand.workers.attempts) == {"team/other"}


async def test_slots_and_room_are_reserved_during_work_and_freed_on_shutdown(stand):
    stand.preparing.gate.clear()
    for each in stand.plan(desired(), image_facts={A: image_facts(7)}).work:
        stand.workers.begin(each)
    assert (stand.workers.slots, stand.workers.promised) == (3, {"team/add": 7})
    assert stand.plan(desired(), image_facts={A: image_facts(7)}).work == ()
    await asyncio.wait_for(stand.workers.end(), 60)
    assert (stand.workers.slots, stand.workers.attempts, stand.store.stored) == (4, {}, {})


async def test_stored_files_are_verified_for_namespace_after_registry_grants_access(stand):
    await stand.work(desired(), image_facts={A: image_facts()})
    assert (stand.preparing.image_facts, set(stand.store.stored)) == ([], {folder(A)})
    other = desired(key="other/add")
    # The signatures are as good for this namespace, but it may have no access to the image.
    given = {"stored": stand.store.stored, "image_policies": {"other/add": ImagePolicies("new")}}
    stand.preparing.error = RegistryError("denied", retryable=False)
    await stand.work(other, **given)
    assert stand.workers.attempts["other/add"].reason == "ExtractionFailed"
    assert not any("/other/" in each for each in stand.store.stored[folder(A)].satisfied)
    stand.preparing.error = None
    await stand.work(other, **given, now=1e12)
    assert stand.preparing.image_facts == ["other/add", "other/add"]
    assert any("/other/" in each for each in stand.store.stored[folder(A)].satisfied)
    # Neither a changed policy nor a full ledger asks again.
    await stand.work(other, **given)
    stand.store.stored[folder(A)] = stored(policies="forgotten")
    stand.workers.discard({})
    await stand.work(other, **given)
    assert stand.preparing.image_facts == ["other/add", "other/add"]
    # A folder that the agent has not read yet may be another tenant's too.
    (stand.store.root / folder(B)).mkdir()
    await stand.work(desired(B, "other/new"), image_facts={B: image_facts()})
    assert stand.preparing.image_facts[2:] == ["other/new"]


async def flip(stand, number, now):
    """Fetch a cache for another mount path, if it may be; when that may be, else."""
    at = f"/cache-{number}"
    known = desired(folder=folder(A).replace(folder(A)[-4:], f"{number:04}"), mount_path=at)
    planned = stand.plan(known, now=now, image_facts={A: image_facts(7)})
    await stand.work(known, now=now, image_facts={A: image_facts(7)})
    return None if planned.work else planned.next_at


@pytest.mark.parametrize("error", [None, CacheError("it is broken at its end")])
async def test_repeatedly_downloaded_cache_waits_longer_each_time(stand, error):
    stand.preparing.error = error
    pauses = []
    for number in range(9):
        now = time.monotonic()
        next_at = await flip(stand, number, now)
        if next_at is not None:
            # As if so much time had passed.
            pauses.append(next_at - now)
            assert await flip(stand, number, next_at) is None
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(30, abs=10)
    assert pauses[-1] > 4 * pauses[0]
    # Whoever makes it anew has won nothing.
    stand.workers.discard({})
    assert await flip(stand, 99, now) is not None
    # Other caches do not wait.
    assert stand.plan(desired(B, "team/other"), now=now, image_facts={B: image_facts(7)}).work


def test_pauses_are_discarded_after_an_hour():
    pause = None
    for _ in range(FREE + 3):
        pause = extend(pause, 1000.0)
    assert pause.until == 1000.0 + 30 * 8
    assert extend(pause, pause.until + 3599).until > pause.until + 3600
    assert extend(pause, pause.until + 3600).until == pause.until + 3600
    for _ in range(100):
        pause = extend(pause, 1000.0)
    assert pause.until == 1000.0 + 3600
