"""What groups may take of the event loop, counted in calls and steps."""

import asyncio

import pytest
from groups_world import World
from support.tasks import running

from accelkit.extender.groups import pacing
from accelkit.extender.groups.pacing import FAILED_PER_SECOND, Pace, Patience
from accelkit.extender.groups.reserving import GroupReserver

SIZE = "pod-group.scheduling.sigs.k8s.io/min-available"


class Tried:
    """How many pods were tried to be placed together, and in which turn of the event loop."""

    def __init__(self, monkeypatch):
        self.pods, self.turns, self._turn = [], [], 0
        reserve = GroupReserver.reserve

        def count(reserver, wanted, *args):
            self.pods.append([each.ref.name for each in wanted])
            self.turns.append(self._turn)
            return reserve(reserver, wanted, *args)

        monkeypatch.setattr(GroupReserver, "reserve", count)

    async def run(self):
        while True:
            self._turn += 1
            await asyncio.sleep(0)


@pytest.fixture
async def tried(monkeypatch):
    found = Tried(monkeypatch)
    task = asyncio.create_task(found.run())
    yield found
    task.cancel()


@pytest.fixture
async def world(quick, tried):
    world = World()
    world.node("n")
    async with running(world.groups.run()):
        yield world


async def test_event_loop_runs_other_tasks_between_groups(world, tried):
    for number in range(40):
        world.pod(f"p{number}", f"g{number}", size=1, memory=64)
    await world.until(lambda: len(tried.pods) == 40)
    assert len(set(tried.turns)) >= 8


async def test_number_of_pods_placed_per_pass_is_limited(world, tried, monkeypatch):
    monkeypatch.setattr(pacing, "_MOST_PLACED", 1)
    for number in range(4):
        world.pod(f"p{number}", f"g{number}", size=1, memory=64)
    looks = []
    for count in range(1, 5):
        await world.until(lambda count=count: len(tried.pods) >= count)
        looks.append(world.turns)
    assert len(set(looks)) > 1
    assert sorted(tried.pods) == [["p0"], ["p1"], ["p2"], ["p3"]]
    assert "" not in {world.groups.describe(f"uid-p{number}") for number in range(4)}


async def test_unchanged_pods_do_not_cause_retry_of_their_group(world, tried):
    world.pod("a", size=1, memory=64)
    await world.until(lambda: tried.pods)
    for size in ("01", "1", "001"):
        world.change("a", **{SIZE: size})
        await world.settled()
    assert len(tried.pods) == 1
    # With one more it is, but not before the first interval is over.
    world.pod("b", size="001", memory=64)
    await world.settled()
    assert len(tried.pods) == 1
    world.pass_time(1)
    await world.until(lambda: len(tried.pods) == 2)


async def test_unchanged_group_is_evaluated_at_most_once_a_second(world, tried, judged):
    world.pod("a", "missing", size=2)
    world.pod("b", "large", size=1, memory=64)
    await world.until(lambda: tried.pods)
    world.pod("x", "", gated=False)
    assert await world.bind("x", "n") == ""
    await world.settled()
    judged.clear()
    for number in range(5):
        # What others hold changes meanwhile.
        world.pod(f"y{number}", "", gated=False, memory=1)
        assert await world.bind(f"y{number}", "n") == ""
        await world.settled()
    assert judged == []
    world.pass_time(1)
    await world.settled()
    assert sorted(judged) == ["large", "missing"]


async def test_namespace_with_many_failed_pods_is_delayed(world, tried, monkeypatch):
    monkeypatch.setattr(pacing, "MOST_FAILED", 2)
    for name in "abc":
        world.pod(name, size=3, memory=64)
    await world.until(lambda: len(tried.pods) == 1)
    world.pod("d", "h", size=1)
    world.pod("e", "h", size=1, namespace="other")
    await world.until(lambda: len(tried.pods) == 2)
    await world.settled()
    assert tried.pods[1:] == [["e"]]
    world.pod("f", "i", size=1, gated=False)
    assert await world.bind("f", "n") == "pod group d/i waits: too many pods of namespace d did not fit recently"
    # The first one comes first again, but ever later.
    world.pass_time(1)
    await world.settled()
    world.pass_time(1)
    await world.until(lambda: "d" in world.held())


async def test_pace_yields_after_its_step_limit():
    pace = Pace()
    pace.count(1_999)
    assert not await pace.rest()
    pace.count(1)
    assert await pace.rest()
    assert not await pace.rest()
    pace.count(0, placed=100)
    assert pace.spent


def test_failure_allowance_recovers_over_time():
    patience = Patience()
    patience.note("d", 200, 10.0)
    assert not patience.is_lost("d", 10.0)
    patience.note("d", 1_500, 10.0)
    assert patience.is_lost("d", 10.0 + 1_499 / FAILED_PER_SECOND)
    assert not patience.is_lost("d", 10.0 + 1_500 / FAILED_PER_SECOND)
    assert not patience.is_lost("e", 10.0)
