"""A list that is older than a member must not let the held bind of this member pass without its group."""

import asyncio

import pytest
from groups_world import World
from support.tasks import running


@pytest.fixture
async def world(quick):
    world = World()
    async with running(world.groups.run()):
        world.node("n", 2)
        yield world


async def test_held_bind_of_member_missing_from_older_list_stays_held(world):
    reflector = world.groups.watch_pods(lambda pods: world.feed.replace_pods(pods, "1"), lambda *_: None)
    world.api._version = 10
    # The pod is created after the list. The bind reads it with a GET request.
    world.pod("p", size=2, gated=False, memory=16, shown=False)
    binding = asyncio.create_task(world.bind("p", "n"))
    await world.until(lambda: world.groups.is_member("uid-p"))
    await world.settled()
    assert not binding.done()
    reflector._version = "1"
    reflector._on_replace([])
    await world.settled()
    await asyncio.sleep(0.05)
    bound = world.find("p")["spec"].get("nodeName")
    binding.cancel()
    assert bound is None
