"""Reservations end in time, whatever who creates the pods does: members that change their group, or come one by one."""

import asyncio

import pytest
from groups_world import World
from support.tasks import running

from accelkit.errors import ApiError
from accelkit.extender.groups import controller

NAME, SIZE = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"


@pytest.fixture
async def world(quick):
    world = World()
    async with running(world.groups.run()):
        world.node("n", 2)
        yield world


async def test_member_that_moved_to_another_group_is_reserved_only_with_new_group(world):
    for name in "ab":
        world.pod(name, size=2, gated=False)
    # One Binding is refused, as that of a pod that is being deleted, and what it held is released.
    world.api.fail(ApiError("it is being deleted", status=409), "POST")
    found = dict(zip("ab", await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")), strict=True))
    refused = next(name for name, error in found.items() if error)
    assert refused not in world.held()
    world.pod("c", "h", size=1)
    world.change(refused, **{NAME: "h", SIZE: "1"})
    await world.until(lambda: "c" in world.held())
    world.api.fail(ApiError("it is being deleted", status=409), "POST")
    assert await world.bind(refused, "n") != ""
    world.delete(refused)
    world.pass_time(60)
    await world.until(lambda: "c" not in world.held())


async def test_reservation_with_former_group_is_released_after_group_change(world):
    await world.reserve("ab")
    world.change("a", **{NAME: "h", SIZE: "2"})
    await world.until(lambda: world.held() == {})
    assert not world.groups.holds("uid-a")
    world.delete("a")
    await world.settled()


async def test_failed_withdrawal_is_logged_and_service_continues(world, monkeypatch, caplog):
    await world.reserve("ab")
    monkeypatch.setattr(controller.GroupEvents, "note_released", lambda *_args: 1 / 0)
    world.pass_time(60)
    await world.until(lambda: "cannot withdraw the reservations" in caplog.text)
    await world.settled()


async def test_member_that_joins_later_does_not_extend_reservation(world):
    await world.reserve("ab")
    world.pass_time(59)
    world.pod("c", size=2)
    await world.until(lambda: len(world.held()) == 3)
    world.pass_time(1)
    await world.until(lambda: world.held() == {})


async def test_pod_with_expired_reservation_is_reserved_again_only_at_bind(world):
    world.pod("a", size=1)
    await world.until(lambda: not world.gated())
    world.pass_time(60)
    await world.until(lambda: world.held() == {})
    # A further member under a gate is reserved for by itself.
    world.pod("b", size=1)
    await world.until(lambda: "b" in world.held())
    await world.settled()
    assert world.held() == {"b": "n"}
    # Neither does another group help.
    world.change("a", **{NAME: "h", SIZE: "2"})
    world.pod("c", "h", size=2)
    await world.until(lambda: "must place 1 of its pods" in world.groups.describe("uid-c"))
    assert world.held() == {"b": "n"}
    assert await world.bind("a", "n") == ""
    await world.until(lambda: "c" in world.held())
