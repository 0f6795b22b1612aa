"""Keys are due when they are due, each once at a time."""

from __future__ import annotations

import asyncio

import pytest

from accelkit.cachecontroller.worklist import Worklist


@pytest.fixture
def work():
    return Worklist()


async def taken(work: Worklist[str], **more):
    async with asyncio.timeout(60):
        return await work.take(**more)


async def waits(work: Worklist[str], **more) -> bool:
    try:
        async with asyncio.timeout(0.02):
            await work.take(**more)
    except TimeoutError:
        return True
    return False


async def test_key_added_twice_is_taken_once(work):
    work.add("a")
    work.add("a")
    assert await taken(work) == "a"
    work.done("a")
    assert await waits(work)


async def test_due_key_with_lowest_rank_is_taken_first(work):
    for key in ("a1", "a2", "b1", "c1"):
        work.add(key)
    ranks = {"a1": 2, "a2": 2, "b1": 1, "c1": 1}
    assert [await taken(work, rank=ranks.get) for _ in range(4)] == ["b1", "c1", "a1", "a2"]
    work.add("a2")
    assert await waits(work, rank=ranks.get)
    work.done("a2")
    assert await taken(work, rank=ranks.get) == "a2"


async def test_key_added_during_processing_is_taken_again_afterwards(work):
    work.add("a")
    await taken(work)
    work.add("a")
    assert await waits(work)
    waiter = asyncio.create_task(taken(work))
    await asyncio.sleep(0)
    work.done("a")
    assert await waiter == "a"


async def test_key_is_taken_at_its_earliest_or_moved_due_time(work):
    work.add("a", 60)
    work.add("a")
    work.add("a", 60)
    assert await taken(work) == "a"
    work.done("a")
    work.add("b")
    work.move("b", 60)
    assert await waits(work)
    work.move("b", 0)
    assert await taken(work) == "b"


async def test_take_returns_earliest_key_and_waits_for_later_key(work):
    # More than a busy machine needs from here to the next line.
    work.add("late", 0.3)
    work.add("now", 0.0)
    assert await taken(work) == "now"
    assert await taken(work) == "late"


async def test_ineligible_key_does_not_block_other_keys(work):
    work.add("a")
    work.add("b")
    assert await taken(work, may=lambda key: key != "a") == "b"
    assert len(work) == 1
    work.drop("a")
    work.add("c", 60)
    work.clear()
    assert len(work) == 0
