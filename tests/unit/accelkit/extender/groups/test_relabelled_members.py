"""Members whose group changes while something is reserved for them, which their creator may do at any time."""

from __future__ import annotations

import asyncio

import pytest
from groups_world import World

from accelkit.errors import ApiError
from accelkit.extender.groups import controller

NAME, SIZE = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(controller, "_TURN_SECONDS", 0.002)
    monkeypatch.setattr(controller, "_IDLE_SECONDS", 0.02)
    world = World()
    task = asyncio.create_task(world.groups.run())
    world.node("n", 2)
    yield world
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_member_that_leaves_for_another_group_is_reserved_for_with_that_one_alone(world):
    for name in "ab":
        world.pod(name, size=2, gated=False)
    # One Binding is refused, as that of a pod that is being deleted, and what it held is released.
    world.api.fail(ApiError("it is being deleted", status=409), "POST")
    found = dict(zip("ab", await asyncio.gather(world.bind("a", "n"), world.bind("b", "n")), strict=True))
    refused = next(name for name, error in found.items() if error)
    assert refused not in world.held()
    world.pod("c", "h", size=1)
    world.change(refused, **{NAME: "h", SIZE: "1"})
    await world.until(lambda: {refused, "c"} <= world.held().keys())
    world.delete(refused)
    world.pass_time(60)
    await world.until(lambda: "c" not in world.held())


async def test_what_is_reserved_with_the_former_group_is_released(world):
    for name in "ab":
        world.pod(name, size=2)
    await world.until(lambda: len(world.held()) == 2)
    world.change("a", **{NAME: "h", SIZE: "2"})
    await world.until(lambda: world.held() == {})
    assert not world.groups.holds("uid-a")
    world.delete("a")
    await world.settled()


async def test_a_withdrawal_that_fails_is_told_and_the_service_goes_on(world, monkeypatch, caplog):
    for name in "ab":
        world.pod(name, size=2)
    await world.until(lambda: len(world.held()) == 2)
    monkeypatch.setattr(controller.GroupTeller, "note_released", lambda *_args: 1 / 0)
    world.pass_time(60)
    await world.until(lambda: "cannot be withdrawn" in caplog.text)
    await world.settled()
