"""Bindings whose answer is lost, and what becomes of their reservations."""

import asyncio

import msgspec
import pytest
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.ledger.holding import ShareStage
from accelkit.model.pod import Pod

LOST = ApiError("no answer")


async def test_lost_response_keeps_reservation_until_outcome_is_known(world, clock, settle):
    world.create()
    world.api.fail(LOST, "POST")
    assert "no answer" in await world.bind()
    clock.now += 9
    await settle()
    assert world.stage() is ShareStage.RESERVED
    clock.now += 2
    await settle()
    assert world.used() == {}


@pytest.mark.parametrize("gone", [False, True])
async def test_lost_response_is_settled_when_pod_is_bound_or_deleted(world, clock, settle, gone):
    world.create()
    world.api.fail(LOST, "POST", answered=True)
    world.api.fail(LOST, "GET")
    assert "no answer" in await world.bind()
    assert world.stage() is ShareStage.RESERVED
    if gone:
        world.api.remove("p")
    await settle()
    assert world.stage() is (None if gone else ShareStage.BOUND)


async def test_unreachable_api_server_keeps_the_reservation(world, clock, settle):
    world.create()
    world.api.fail(LOST, "POST")
    world.api.fail(LOST, "GET", times=1000)
    await world.bind()
    clock.now += 3600
    await settle()
    assert world.stage() is ShareStage.RESERVED


async def test_conflict_with_failed_lookup_is_settled_later(world, clock, settle):
    world.create()
    world.bound_elsewhere("m")
    world.api.fail(LOST, "GET")
    assert "already assigned" in await world.bind()
    assert world.stage() is ShareStage.RESERVED
    await settle()
    assert (world.used("n"), world.used("m")) == ({}, {"b": 4})


async def test_second_lost_response_restarts_the_settle_delay(world, clock, settle):
    world.create()
    world.api.fail(LOST, "POST", times=2)
    await world.bind()
    clock.now += 9
    await world.bind()
    clock.now += 2
    await settle()
    # The second Binding was sent two seconds ago and may still take effect.
    assert world.stage() is ShareStage.RESERVED


async def test_retry_after_lost_response_uses_the_same_cards(world):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    assert await world.bind() == ""
    assert world.api.posts[0] == world.api.posts[1]
    assert world.used() == {"a": 4}


async def test_retry_of_successful_bind_changes_nothing(world):
    world.create()
    assert await world.bind() == await world.bind() == ""
    world.show("p", "MODIFIED")
    assert await world.bind() == ""
    assert (world.used(), world.stage()) == ({"a": 4}, ShareStage.CONFIRMED)


async def test_bind_to_another_node_is_refused_until_first_outcome_is_known(world, clock):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    assert await world.bind(node="m") == "pod is reserved on node n until the result of its Binding is known"
    assert world.used("m") == {}
    clock.now += 11
    assert await world.bind(node="m") == ""
    assert (world.used("n"), world.used("m")) == ({}, {"a": 4})


@pytest.mark.parametrize("gone", [False, True])
async def test_reservation_missing_from_pod_list_is_rechecked(world, settle, gone):
    world.create()
    assert await world.bind() == ""
    if gone:
        world.api.remove("p")
    for held in world.feed.replace_pods([]):
        world.binder.outcomes.recheck(held)
    await settle()
    assert world.stage() is (None if gone else ShareStage.BOUND)


async def test_list_older_than_binding_does_not_release_bound_pod(world):
    world.create()
    listed = [msgspec.convert(world.api.pods["p"], Pod)]
    world.api.fail(LOST, "POST", answered=True)
    assert await world.bind() == ""
    world.feed.replace_pods(listed)
    assert world.used() == {"a": 4}


async def test_refused_retry_keeps_reservation_of_earlier_binding(world):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    world.leader = "another replica"
    assert await world.bind() == "another replica leads"
    assert (world.used(), world.stage()) == ({"a": 4}, ShareStage.RESERVED)


async def test_binder_is_unsettled_during_binding_and_unknown_outcome(world, clock, settle):
    world.create()
    world.api.gate.clear()
    assert not world.binder.unsettled
    binding = asyncio.create_task(world.bind())
    await until(lambda: world.api.posts)
    assert world.binder.unsettled
    world.api.gate.set()
    assert await binding == ""
    assert not world.binder.unsettled
    world.create("q")
    world.api.fail(LOST, "POST")
    await world.bind("q")
    assert world.binder.unsettled
    clock.now += 11
    await settle()
    assert not world.binder.unsettled


async def test_lost_response_settled_by_watch_is_not_looked_up(world, settle):
    world.create()
    world.api.fail(LOST, "POST", answered=True)
    world.api.fail(LOST, "GET")
    await world.bind()
    world.show("p", "MODIFIED")
    assert world.stage() is ShareStage.CONFIRMED
    gets = world.api.gets
    await settle()
    assert (world.api.gets, world.binder.unsettled) == (gets, False)
