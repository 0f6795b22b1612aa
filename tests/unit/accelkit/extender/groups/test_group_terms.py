"""Reservations for groups when binds start after a change of the leader."""

import time

import pytest
from groups_world import World
from support.tasks import running


@pytest.fixture
async def groups(quick):
    world = World()
    # As in the service.
    decides, binder = world._decides, world.binder
    world.groups._controller._leads = lambda: world.groups._sizes.are_read and binder.try_open() and decides()
    async with running(world.groups.run()):
        world.node("n", 2)
        yield world


async def test_first_bind_after_opening_by_time_keeps_reservations_of_this_term(groups):
    """A group is reserved and its gates are removed; then a pod without a group is bound."""
    groups.binder.begin_term(time.monotonic() + 0.2)
    for name in "ab":
        groups.pod(name, memory=16, size=2)
    await groups.until(lambda: not groups.gated())
    assert groups.held() == {"a": "n", "b": "n"}
    groups.pod("q", "", memory=16, gated=False)
    answer = await groups.bind("q", "n")
    # Both cards of the node are reserved for the group in this term.
    assert (answer != "", groups.held()) == (True, {"a": "n", "b": "n"})
