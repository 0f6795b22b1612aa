"""Bindings name the version of their pod, so that what the next leader writes on it makes them fail."""

import pytest

from accelkit.errors import ApiError


def change(world, name="p"):
    """Change a pod as another controller does, unseen by the watch so far."""
    labels = world.api.pods[name]["metadata"].setdefault("labels", {})
    labels["changed"] = str(int(labels.get("changed", 0)) + 1)


def versions(world):
    return [post["metadata"].get("resourceVersion") for post in world.api.posts]


async def test_unwatched_pod_is_bound_with_the_version_from_get(world):
    world.create(watched=False)
    assert await world.bind() == ""
    assert versions(world) != [None]


async def test_changed_pod_is_bound_with_its_current_version(world, settle):
    world.create()
    first = world.show_current()
    change(world)
    assert await world.bind() == ""
    assert len(set(versions(world))) == 2
    assert versions(world)[0] == first
    await settle()
    assert world.used() == {"a": 4}
    assert not world.binder.unsettled


async def test_binding_uses_newer_version_from_watch(world):
    world.create()
    world.show_current()
    change(world)
    shown = []
    world.api.before.append(lambda request: shown.append(world.show_current()) if request.method == "POST" else None)
    assert await world.bind() == ""
    assert versions(world)[1] == shown[0]


async def test_bind_fails_after_three_version_conflicts(world):
    world.create()
    world.show_current()
    world.api.before.append(lambda request: change(world) if request.method == "POST" else None)
    assert "d/p" in await world.bind()
    assert len(world.api.posts) == 3
    assert (world.used(), world.binder.unsettled) == ({}, False)


async def test_former_leader_does_not_retry_the_binding(world):
    world.create()
    world.show_current()
    change(world)

    def lose(request):
        if request.method == "POST":
            world.leader = "other"

    world.api.before.append(lose)
    assert await world.bind() == "other leads"
    assert len(world.api.posts) == 1
    assert (world.used(), world.binder.unsettled) == ({}, False)


@pytest.mark.parametrize("lost", [True, False])
async def test_reservation_remains_while_an_earlier_binding_may_succeed(world, lost):
    """A refusal ends a reservation only if no other Binding of it is unanswered."""
    world.create()
    world.show_current()
    if lost:
        world.api.fail(ApiError("lost"), "POST")
        assert await world.bind() != ""
        assert world.binder.is_unsettled("uid-p")
    world.api.before.append(lambda request: change(world) if request.method == "POST" else None)
    assert await world.bind() != ""
    assert world.used() == ({"a": 4} if lost else {})
