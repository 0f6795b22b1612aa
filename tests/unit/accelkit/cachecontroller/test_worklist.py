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


async def test_a_key_that_is_named_twice_is_taken_once(work):
    work.add("a")
    work.add("a")
    assert await taken(work) == "a"
    work.done("a")
    assert await waits(work)


async def test_of_those_that_are_due_the_least_in_rank_is_taken(work):
    for key in ("a1", "a2", "b1", "c1"):
        work.add(key)
    ranks = {"a1": 2, "a2": 2, "b1": 1, "c1": 1}
    assert [await taken(work, rank=ranks.get) for _ in range(4)] == ["b1", "c1", "a1", "a2"]
    work.add("a2")
    assert await waits(work, rank=ranks.get)
    work.done("a2")
    assert await taken(work, rank=ranks.get) == "a2"


async def test_a_key_is_not_taken_twice_at_once_and_not_forgotten(work):
    work.add("a")
    await taken(work)
    work.add("a")
    assert await waits(work)
    waiter = asyncio.create_task(taken(work))
    await asyncio.sleep(0)
    work.done("a")
    assert await waiter == "a"


async def test_keys_are_taken_when_they_are_due_or_moved(work):
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


async def test_what_is_due_first_is_taken_first_and_later_ones_are_waited_for(work):
    # More than a busy machine needs from here to the next line.
    work.add("late", 0.3)
    work.add("now", 0.0)
    assert await taken(work) == "now"
    assert await taken(work) == "late"


async def test_a_key_that_may_not_be_taken_does_not_hold_the_others(work):
    work.add("a")
    work.add("b")
    assert await taken(work, may=lambda key: key != "a") == "b"
    assert len(work) == 1
    work.drop("a")
    work.add("c", 60)
    work.clear()
    assert len(work) == 0
