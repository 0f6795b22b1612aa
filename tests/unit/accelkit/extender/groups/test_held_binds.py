import asyncio

import pytest
from groups_world import World
from support.tasks import running

from accelkit.extender.groups import binds
from accelkit.extender.groups.pod_groups import GroupTimes
from accelkit.ledger.claims import claim
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules


@pytest.fixture
def times():
    return GroupTimes()


@pytest.fixture
async def world(quick, times):
    world = World(times=times)
    async with running(world.groups.run()):
        world.node("n")
        world.node("m")
        yield world


def pods(world, names, group="g", **options):
    for name in names:
        world.pod(name, group, gated=False, **options)


async def test_bind_waits_for_missing_members(world):
    pods(world, "abc", size=4)
    first = [asyncio.create_task(world.bind(name, "n")) for name in "ab"]
    await world.settled()
    assert world.held() == {}
    pods(world, "d", size=4)
    assert await asyncio.gather(*first, world.bind("c", "m"), world.bind("d", "m")) == [""] * 4
    assert world.held() == {"a": "n", "b": "n", "c": "m", "d": "m"}


async def test_bind_is_held_until_hold_time_ends(world):
    pods(world, "a", size=2)
    task = asyncio.create_task(world.bind("a", "n"))
    await world.settled()
    world.pass_time(4.9)
    await world.settled()
    assert not task.done()
    world.pass_time(0.1)
    assert await task == "pod group d/g waits: 1 of 2 pods exist"


async def test_unplaced_member_prevents_binding_of_group(world):
    pods(world, "abc", size=3)
    found = await world.bind_for(5, a="n", b="n")
    assert set(found) == {"pod group d/g: kube-scheduler has placed 2 of 3 pods within 5 s"}
    world.pass_time(14.9)
    await world.settled()
    assert sorted(world.held()) == ["a", "b", "c"]
    world.pass_time(0.1)
    await world.settled()
    assert world.held() == {}
    assert not any(request.path.endswith("/binding") for request in world.api.requests)


async def test_binds_of_members_that_never_wait_together_succeed(world):
    pods(world, "abcd", size=4)
    # kube-scheduler brings each pod back after 10 s, and a bind is held for 5 s: the two pairs never wait together.
    assert all("2 of 4 pods" in error for error in await world.bind_for(5, a="n", b="n"))
    world.pass_time(3)
    assert await asyncio.gather(world.bind("c", "m"), world.bind("d", "m")) == ["", ""]
    world.pass_time(7)
    assert await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")) == ["", ""]
    assert world.held() == {"a": "n", "b": "n", "c": "m", "d": "m"}


async def test_members_must_be_placed_again_for_each_reservation(world):
    pods(world, "abcd", size=4, memory=2)
    await world.bind_for(5, a="n", b="n")
    world.pass_time(15)
    await world.settled()
    assert "d/g waits 10 s: kube-scheduler did not place enough of its pods in time" in await world.bind("c", "m")
    assert world.held() == {}
    world.pass_time(10)
    assert all("2 of 4 pods" in error for error in await world.bind_for(5, c="m", d="m"))


async def test_reservation_lasts_full_time_after_all_members_are_placed(world):
    pods(world, "abcd", size=4)
    await world.bind_for(5, a="n", b="n")
    assert await asyncio.gather(world.bind("c", "m"), world.bind("d", "m")) == ["", ""]
    world.pass_time(50)
    await world.settled()
    assert await world.bind("a", "n") == ""
    world.pass_time(5)
    await world.settled()
    assert sorted(world.held()) == ["a", "c", "d"]


@pytest.mark.parametrize("times", [GroupTimes(reservation=20)])
async def test_reservation_too_short_for_retry_ends_with_hold(world):
    pods(world, "abcd", size=4)
    assert all(await world.bind_for(5, a="n", b="n"))
    await world.settled()
    assert world.held() == {}
    world.pass_time(14)
    # With cards for 1 s more, the two others would be bound, and the first two would lose theirs.
    assert all(await world.bind_for(5, c="m", d="m"))
    await world.settled()
    world.pass_time(2.5)
    nodes = {"a": "n", "b": "n", "c": "m", "d": "m"}
    assert await asyncio.gather(*(world.bind(name, node) for name, node in nodes.items())) == [""] * 4


@pytest.mark.parametrize("times", [GroupTimes(reservation=30)])
async def test_held_members_are_retried_before_short_reservation_ends(world):
    pods(world, "abcd", size=4)
    assert all("2 of 4 pods" in error for error in await world.bind_for(5, a="n", b="n"))
    world.pass_time(9.9)
    assert await asyncio.gather(world.bind("c", "m"), world.bind("d", "m")) == ["", ""]
    world.pass_time(15)
    await world.settled()
    assert await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")) == ["", ""]


@pytest.mark.parametrize(
    ("reservation", "hold", "gather"), [(60, 5, 20), (35, 5, 20), (30, 5, 15), (20, 5, 5), (3, 5, 3), (60, 0, 15)]
)
def test_gather_time_allows_one_retry_and_leaves_time_for_another(reservation, hold, gather):
    assert GroupTimes(reservation, hold).gather == gather


@pytest.mark.parametrize("times", [GroupTimes(hold=0)])
async def test_group_without_hold_time_binds_after_each_member_was_placed(world):
    pods(world, "ab", size=2)
    assert await world.bind("a", "n") == "pod group d/g: kube-scheduler has placed 1 of 2 pods within 0 s"
    world.pass_time(10)
    assert await world.bind("b", "n") == ""
    assert await world.bind("a", "n") == ""


async def test_pod_counts_as_placed_if_bind_cannot_be_held(world, monkeypatch):
    monkeypatch.setattr(binds, "MOST_HELD_OF_NAMESPACE", 3)
    pods(world, "abc", size=3)
    assert "1 of 3 pods" in (await world.bind_for(5, a="n"))[0]
    pods(world, "xyz", "h", size=9)
    held = [asyncio.create_task(world.bind(name, "m")) for name in "xyz"]
    await world.settled()
    for name, placed in (("a", 1), ("b", 2)):
        error = await world.bind(name, "n")
        assert f"{placed} of 3 pods" in error
        assert "too many binds are held already" in error
    assert [await world.bind(name, node) for name, node in (("c", "m"), ("a", "n"), ("b", "n"))] == [""] * 3
    world.pass_time(5)
    await asyncio.gather(*held)


async def test_pod_placed_on_another_node_without_success_no_longer_counts(world):
    pods(world, "ab", size=2, memory=16)
    assert "1 of 2 pods" in (await world.bind_for(5, a="n"))[0]
    assert "are reserved, together with its group, on node n" in await world.bind("a", "m")
    assert "1 of 2 pods" in (await world.bind_for(5, b="m"))[0]
    assert await world.bind("a", "n") == ""
    assert await world.bind("b", "m") == ""


async def test_pod_being_deleted_no_longer_counts(world):
    pods(world, "abc", size=2, memory=4)
    assert "1 of 2 pods" in (await world.bind_for(5, a="n"))[0]
    # A finalizer keeps it, and kube-scheduler does not try it any more.
    world.find("a")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.show("MODIFIED", world.find("a"))
    assert "1 of 2 pods" in (await world.bind_for(5, b="n"))[0]
    assert sorted(world.held()) == ["b", "c"]
    assert await world.bind("c", "n") == ""


async def test_deleted_member_no_longer_counts_as_placed(world):
    pods(world, "abcd", size=3, memory=4)
    assert "1 of 3 pods" in (await world.bind_for(5, a="n"))[0]
    world.delete("a")
    pods(world, "e", size=3, memory=4)
    assert set(await world.bind_for(5, b="n", e="n")) == {
        "pod group d/g: kube-scheduler has placed 2 of 3 pods within 5 s"
    }
    assert await world.bind("c", "n") == ""


async def test_member_that_changes_its_group_no_longer_counts_as_placed(world):
    pods(world, "abcd", size=3, memory=4)
    assert "1 of 3 pods" in (await world.bind_for(5, a="n"))[0]
    world.change("a", **{"pod-group.scheduling.sigs.k8s.io/name": "h"})
    assert "1 of 3 pods" in (await world.bind_for(5, b="n"))[0]
    world.change("a", **{"pod-group.scheduling.sigs.k8s.io/name": "g"})
    assert "2 of 3 pods" in (await world.bind_for(5, c="n"))[0]


async def test_placed_members_are_counted_anew_after_lease_is_regained(world):
    pods(world, "ab", size=2)
    assert "1 of 2 pods" in (await world.bind_for(5, a="n"))[0]
    world.leads = False
    await world.settled()
    assert world.held() == {}
    world.leads = True
    assert "1 of 2 pods" in (await world.bind_for(5, b="n"))[0]


async def test_pod_with_cancelled_bind_request_counts_as_placed(world):
    pods(world, "ab", size=2)
    task = asyncio.create_task(world.bind("a", "n"))
    await world.settled()
    task.cancel()
    world.pass_time(5)
    await world.settled()
    assert sorted(world.held()) == ["a", "b"]
    assert await world.bind("b", "n") == ""
    assert await world.bind("a", "n") == ""


async def test_incomplete_group_releases_its_cards_for_another_group(world):
    pods(world, "abc", "g", size=3)
    pods(world, "uvw", "h", size=3)
    assert all("2 of 3 pods" in error for error in await world.bind_for(5, a="n", b="n"))
    assert "does not fit as a whole" in await world.bind("u", "m")
    # A member that returns does not make the reservation last.
    world.pass_time(14)
    task = asyncio.create_task(world.bind("a", "n"))
    await world.settled()
    world.pass_time(1)
    assert "has not placed all of its pods within 20 s" in await task
    nodes = {"u": "n", "v": "n", "w": "m"}
    assert await asyncio.gather(*(world.bind(name, node) for name, node in nodes.items())) == [""] * 3


async def test_two_groups_that_need_same_cards_do_not_deadlock(world):
    pods(world, "abc", "g", size=3)
    pods(world, "uvw", "h", size=3)
    names = "aubvcw"
    found = await asyncio.gather(*(world.bind(name, node) for name, node in zip(names, "nmnmmn", strict=True)))
    won = {name for name, error in zip(names, found, strict=True) if not error}
    assert won in (set("abc"), set("uvw"))
    assert all("does not fit as a whole" in error for error in found if error)
    assert set(world.held()) == won


async def test_node_chosen_by_kube_scheduler_with_free_cards_is_used(world):
    pods(world, "ab", size=2, memory=16)
    # With the first bind both are reserved, the other pod on the other node.
    found = await world.bind_for(5, a="m", b="m")
    assert sum("are reserved, together with its group, on node n" in error for error in found) == 1
    world.pass_time(15)
    await world.settled()
    pods(world, "cd", "h", size=2, memory=8)
    assert world.held() == {}
    assert await asyncio.gather(world.bind("c", "m"), world.bind("d", "n")) == ["", ""]
    assert world.held() == {"c": "m", "d": "n"}


async def test_pod_missing_from_watch_is_held_with_its_group(world):
    pods(world, "b", size=3)
    pods(world, "a", size=3, shown=False)
    assert "2 of 3 pods exist" in (await world.bind_for(5, a="n"))[0]


async def test_pod_without_group_is_not_held(world):
    pods(world, "a", "")
    assert await world.bind("a", "n") == ""
    pods(world, "b", "h")
    assert "the size of group d/h" in (await world.bind_for(5, b="n"))[0]


async def test_surplus_member_is_bound_alone(world):
    pods(world, "ab", size=2)
    assert await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")) == ["", ""]
    pods(world, "c", size=2)
    assert await world.bind("c", "m") == ""


async def test_namespace_with_many_held_binds_does_not_block_further_binds(world, monkeypatch):
    monkeypatch.setattr(binds, "MOST_HELD_OF_NAMESPACE", 2)
    pods(world, "abc", size=9)
    found = await world.bind_for(5, a="n", b="n", c="n")
    assert sorted("too many binds are held already" in error for error in found) == [False, False, True]
    # None is counted any more.
    assert "too many" not in (await world.bind_for(5, c="n"))[0]


async def test_held_binds_of_one_namespace_leave_room_for_other_namespaces(world, monkeypatch):
    monkeypatch.setattr(binds, "_MOST_HELD", 8)
    pods(world, "abcdef", size=9)
    world.pod("x", size=9, gated=False, namespace="e")
    tasks = [asyncio.create_task(world.bind(name, "n")) for name in "abcdef"]
    await world.settled()
    tasks.append(asyncio.create_task(world.bind("x", "n", namespace="e")))
    await world.settled()
    world.pass_time(5)
    found = await asyncio.gather(*tasks)
    assert ["too many binds are held already" in error for error in found] == [False] * 4 + [True] * 2 + [False]


async def test_binds_beyond_quota_are_not_held(world):
    world.ledger.put_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": 16}]}))
    pods(world, "abc", size=9)
    pods(world, "x", "h", size=9)
    pods(world, "y", "i", size=9, memory=17)
    tasks = [asyncio.create_task(world.bind(name, "n")) for name in "abcx"]
    await world.settled()
    assert [each.done() for each in tasks] == [False, False, True, True]
    assert "pod group d/g: namespace d" in await tasks[2]
    assert "pod group d/h: namespace d" in await tasks[3]
    assert "pod group d/i: namespace d" in await world.bind("y", "n")
    world.pass_time(5)
    assert set(await asyncio.gather(*tasks[:2])) == {"pod group d/g waits: 3 of 9 pods exist"}
    # What is held no more is not counted.
    tasks.append(asyncio.create_task(world.bind("c", "n")))
    await world.settled()
    assert not tasks[-1].done()
    world.pass_time(5)
    await asyncio.gather(*tasks)


async def test_binds_of_several_incomplete_groups_beyond_quota_are_not_held(world):
    # kube-scheduler counts a pod on its node while its bind is held.
    world.ledger.put_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": 16}]}))
    for name in "abc":
        pods(world, name, f"group-{name}", size=2)
    tasks = [asyncio.create_task(world.bind(name, "n")) for name in "abc"]
    await world.settled()
    assert [each.done() for each in tasks] == [False, False, True]
    assert "pod group d/group-c: namespace d" in await tasks[2]
    # A complete group does not wait for the held binds of incomplete groups.
    pods(world, "xy", "complete", size=2)
    assert await asyncio.gather(world.bind("x", "n"), world.bind("y", "m")) == ["", ""]
    world.pass_time(5)
    await asyncio.gather(*tasks)


async def test_group_too_large_to_hold_is_reserved_as_a_whole(world, monkeypatch):
    monkeypatch.setattr(binds, "MOST_HELD_OF_NAMESPACE", 2)
    pods(world, "abc", size=3)
    assert await world.bind("a", "n") == ""
    assert sorted(world.held()) == ["a", "b", "c"]
    pods(world, "uvw", "h", size=3)
    assert "does not fit as a whole" in await world.bind("u", "m")


async def test_cards_claimed_by_preemption_are_not_reserved_for_member(world):
    pods(world, "abc", size=3, memory=16)
    pending = world.feed.pending["uid-a"]
    claim(world.ledger, pending.pod.ref, "n", pending.request, Policy.BINPACK, gone=())
    assert "does not fit as a whole" in await world.bind("a", "n")
    pods(world, "uv", "h", size=2, memory=16)
    pending = world.feed.pending["uid-u"]
    world.ledger.release("uid-a")
    claim(world.ledger, pending.pod.ref, "n", pending.request, Policy.BINPACK, gone=())
    assert await asyncio.gather(world.bind("u", "n"), world.bind("v", "m")) == ["", ""]


async def test_change_wakes_only_binds_of_its_group_and_group_is_evaluated_once(world, judged, monkeypatch):
    joined, join = [], binds.HeldBinds._join

    def note_join(held, ref, node):
        joined.append(ref.name)
        return join(held, ref, node)

    monkeypatch.setattr(binds.HeldBinds, "_join", note_join)
    pods(world, "abc", size=9)
    tasks = [asyncio.create_task(world.bind(name, "n")) for name in "abc"]
    await world.settled()
    joined.clear()
    for number in range(5):
        pods(world, [f"x{number}"], "h", size=9)
        await world.settled()
    assert joined == []
    judged.clear()
    pods(world, "d", size=9)
    await world.settled()
    assert sorted(joined) == ["a", "b", "c"]
    assert judged.count("g") == 1
    # One that changes its group wakes those whom it leaves, and is awake itself.
    world.change("a", **{"pod-group.scheduling.sigs.k8s.io/name": "h"})
    await world.settled()
    assert sorted(joined) == ["a", "a", "b", "b", "c", "c"]
    world.pass_time(5)
    assert sorted(set(await asyncio.gather(*tasks))) == [
        "pod group d/g waits: 3 of 9 pods exist",
        "pod group d/h waits: 6 of 9 pods exist",
    ]


async def test_current_request_of_pod_is_evaluated(world):
    pods(world, "ab", size=2)
    group = world.groups._group_index.find("uid-a")
    judge = world.groups._batches.judge
    assert [each.ref.name for each in judge(group).lacking] == ["a", "b"]
    world.find("a")["metadata"]["annotations"] = {"accelkit.io/request": "no request"}
    world.show("MODIFIED", world.find("a"))
    assert [each.ref.name for each in judge(group).lacking] == ["b"]
    assert judge(group).refusal[0].name == "a"
