import asyncio

import pytest
from groups_world import World
from support.tasks import running

from accelkit.errors import ApiError
from accelkit.extender.groups import group_events as telling


@pytest.fixture
def quick(quick, monkeypatch):
    monkeypatch.setattr(telling, "_LASTING_SECONDS", 0.0)


@pytest.fixture
async def world(quick):
    world = World()
    async with running(world.groups.run()):
        yield world


async def test_gates_are_removed_after_enough_members_are_reserved(world):
    world.node("n")
    world.node("m")
    for name in "abc":
        world.pod(name, size=4)
    await world.until(world.events)
    assert (world.held(), world.gated()) == ({}, ["a", "b", "c"])
    assert world.events()[0][1:] == ("PodGroupWaiting", "pod group d/g waits: 3 of 4 pods exist")
    assert world.groups.describe("uid-a") == "pod group d/g waits: 3 of 4 pods exist"
    world.pod("d", size=4)
    await world.until(lambda: not world.gated())
    assert sorted(world.held()) == ["a", "b", "c", "d"]
    # kube-scheduler tries this node first, whichever part of the nodes it looks at.
    assert {name: world.find(name)["status"]["nominatedNodeName"] for name in "abcd"} == world.held()
    assert [await world.bind(name, node) for name, node in world.held().items()] == [""] * 4
    assert not world.groups.holds("uid-a")
    assert world.groups.describe("uid-a") == ""


async def test_group_that_does_not_fit_reserves_nothing_until_cards_are_released(world):
    world.node("n")
    world.pod("other", "", gated=False)
    assert await world.bind("other", "n") == ""
    for name in "ab":
        world.pod(name, size=2)
    await world.until(world.events)
    assert "room for 1 of 2 pods" in world.events()[0][2]
    assert (sorted(world.held()), world.gated()) == (["other"], ["a", "b"])
    world.delete("other")
    await world.until(lambda: not world.gated())
    assert world.held() == {"a": "n", "b": "n"}


async def test_members_that_fit_are_placed_if_minimum_size_is_reached(world):
    world.node("n")
    world.pod("liar", memory=64, size=2)
    for name in "ab":
        world.pod(name, size=2)
    await world.until(lambda: world.gated() == ["liar"])
    assert world.held() == {"a": "n", "b": "n"}
    # One that fits later is placed by itself.
    world.node("m", kind="MODIFIED")
    world.pod("c", size=2)
    await world.until(lambda: "c" in world.held() and world.gated() == ["liar"])


async def test_older_group_is_placed_first_as_a_whole(world):
    world.node("n")
    world.leads = False
    for name in "ab":
        world.pod(name, "young", size=2, created="2026-01-02T00:00:00Z")
    for name in "cd":
        world.pod(name, "old", size=2)
    world.leads = True
    await world.until(lambda: world.gated() == ["a", "b"])
    assert sorted(world.held()) == ["c", "d"]


async def test_reservations_without_binding_are_released_together_at_timeout(world):
    world.node("n")
    for name in "ab":
        world.pod(name, size=2)
    await world.until(lambda: not world.gated())
    world.pass_time(59)
    await world.settled()
    assert world.held() == {"a": "n", "b": "n"}
    world.pass_time(1)
    await world.until(lambda: not world.held() and len(world.events()) == 2)
    assert {each[:2] for each in world.events()} == {("a", "PodGroupReleased"), ("b", "PodGroupReleased")}
    assert "has not placed all of its pods within 60 s" in world.events()[0][2]
    # Without a gate they fall to the binds that are held.
    assert await world.bind_for(5, a="n") == ["pod group d/g: kube-scheduler has placed 1 of 2 pods within 5 s"]
    world.pass_time(15)
    await world.settled()
    assert world.held() == {}
    world.pass_time(10)
    assert await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")) == ["", ""]


async def test_remaining_members_are_bound_together_after_restart(quick):
    before = World()
    async with running(before.groups.run()):
        before.node("n", cards=2)
        for name in "abc":
            before.pod(name, size=3)
        await before.until(lambda: not before.gated())
        assert await before.bind("a", "n") == ""
    after = World(api=before.api)
    async with running(after.groups.run()):
        after.node("n", cards=2)
        for name in "abc":
            after.show("ADDED", after.find(name))
        await after.settled()
        assert after.held() == {"a": "n"}
        # One by itself is held, and neither it nor the other keeps cards in the end.
        assert await after.bind_for(5, b="n") == ["pod group d/g: kube-scheduler has placed 2 of 3 pods within 5 s"]
        after.pass_time(15)
        await after.settled()
        assert after.held() == {"a": "n"}
        after.pass_time(10)
        assert await asyncio.gather(after.bind("b", "n"), after.bind("c", "n")) == ["", ""]


async def test_deleted_member_releases_reservations_of_its_group(world):
    world.node("n")
    await world.reserve("ab")
    world.delete("a")
    await world.until(lambda: not world.held())
    await world.until(lambda: ("b", "PodGroupReleased", "pod group d/g waits: 1 of 2 pods exist") in world.events())


async def test_replica_without_lease_releases_and_makes_no_reservations(world):
    world.node("n")
    # Their gates stay, so that whoever decides would reserve for them again.
    world.api.fail(ApiError("no", status=403), "PATCH", times=None)
    await world.reserve("ab")
    world.leads = False
    await world.until(lambda: not world.held())
    await world.settled()
    assert (world.held(), world.gated()) == ({}, ["a", "b"])
    world.leads = True
    await world.until(lambda: len(world.held()) == 2)


async def test_pods_with_foreign_gates_do_not_count_and_foreign_gates_are_kept(world):
    world.node("n")
    world.pod("a", size=2, gates=[{"name": "example.org/quota"}])
    world.pod("b", size=2)
    await world.until(world.events)
    assert "1 of 2 pods exist, and 1 more have scheduling gates of other controllers" in world.events()[0][2]
    pod = world.find("a")
    pod["spec"]["schedulingGates"].pop(0)
    world.show("MODIFIED", pod)
    await world.until(lambda: not world.gated())


async def test_pod_without_cards_is_ungated_and_invalid_request_blocks_group(world):
    world.node("n")
    world.pod("launcher", memory=0, size=2)
    world.pod("a", size=2)
    await world.until(lambda: not world.gated())
    assert world.held() == {"a": "n"}
    world.pod("b", "h", size=2, memory=4)
    world.pod("c", "h", size=2, memory=-4)
    await world.until(lambda: any("cannot be placed" in each[2] for each in world.events()))
    assert world.gated() == ["b", "c"]


async def test_pod_with_too_many_rules_is_refused_and_reported(world):
    world.node("n")
    terms = [{"matchExpressions": [{"key": str(number), "operator": "DoesNotExist"}]} for number in range(300)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    world.pod("a", size=1, spec={"affinity": {"nodeAffinity": required}})
    await world.until(world.events)
    assert "pod a cannot be placed: its node selector, required node affinity" in world.events()[0][2]
    assert (world.held(), world.gated()) == ({}, ["a"])
    # Of a pod that needs no cards they are not asked.
    world.pod("b", "h", size=1, memory=0, spec={"affinity": {"nodeAffinity": required}})
    await world.until(lambda: world.gated() == ["a"])


async def test_groups_with_same_name_in_two_namespaces_are_separate(world):
    world.node("n")
    world.pod("a", size=2)
    world.pod("b", size=2, namespace="e")
    await world.until(lambda: len(world.events()) == 2)
    assert world.gated() == ["a", "b"]
