"""Bindings whose answer is lost, and what becomes of their reservations."""

import asyncio

import msgspec
import pytest
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.ledger.holding import ShareStage
from accelkit.model.pod import Pod

LOST = ApiError("no answer")


async def test_a_lost_answer_keeps_the_reservation_until_it_is_known(world, clock, settle):
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
async def test_a_lost_answer_is_settled_when_the_pod_turns_out_bound_or_gone(world, clock, settle, gone):
    world.create()
    world.api.fail(LOST, "POST", answered=True)
    world.api.fail(LOST, "GET")
    assert "no answer" in await world.bind()
    assert world.stage() is ShareStage.RESERVED
    if gone:
        world.api.remove("p")
    await settle()
    assert world.stage() is (None if gone else ShareStage.BOUND)


async def test_an_api_server_that_stays_away_leaves_the_reservation(world, clock, settle):
    world.create()
    world.api.fail(LOST, "POST")
    world.api.fail(LOST, "GET", times=1000)
    await world.bind()
    clock.now += 3600
    await settle()
    assert world.stage() is ShareStage.RESERVED


async def test_a_conflict_that_cannot_be_looked_into_is_settled_later(world, clock, settle):
    world.create()
    world.bound_elsewhere("m")
    world.api.fail(LOST, "GET")
    assert "already assigned" in await world.bind()
    assert world.stage() is ShareStage.RESERVED
    await settle()
    assert (world.used("n"), world.used("m")) == ({}, {"b": 4})


async def test_a_second_lost_answer_starts_the_wait_again(world, clock, settle):
    world.create()
    world.api.fail(LOST, "POST", times=2)
    await world.bind()
    clock.now += 9
    await world.bind()
    clock.now += 2
    await settle()
    # The second Binding was sent two seconds ago and may still take effect.
    assert world.stage() is ShareStage.RESERVED


async def test_a_retry_after_a_lost_answer_takes_the_same_cards(world):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    assert await world.bind() == ""
    assert world.api.posts[0] == world.api.posts[1]
    assert world.used() == {"a": 4}


async def test_a_retry_of_what_succeeded_changes_nothing(world):
    world.create()
    assert await world.bind() == await world.bind() == ""
    world.show("p", "MODIFIED")
    assert await world.bind() == ""
    assert (world.used(), world.stage()) == ({"a": 4}, ShareStage.CONFIRMED)


async def test_another_node_is_refused_while_the_first_is_undecided_and_taken_afterwards(world, clock):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    assert await world.bind(node="m") == "pod is reserved on node n until the result of its Binding is known"
    assert world.used("m") == {}
    clock.now += 11
    assert await world.bind(node="m") == ""
    assert (world.used("n"), world.used("m")) == ({}, {"a": 4})


@pytest.mark.parametrize("gone", [False, True])
async def test_a_reservation_that_a_list_does_not_show_is_looked_into(world, settle, gone):
    world.create()
    assert await world.bind() == ""
    if gone:
        world.api.remove("p")
    for held in world.feed.replace_pods([]):
        world.binder.outcomes.recheck(held)
    await settle()
    assert world.stage() is (None if gone else ShareStage.BOUND)


async def test_a_list_older_than_the_binding_does_not_free_what_a_get_has_shown(world):
    world.create()
    listed = [msgspec.convert(world.api.pods["p"], Pod)]
    world.api.fail(LOST, "POST", answered=True)
    assert await world.bind() == ""
    world.feed.replace_pods(listed)
    assert world.used() == {"a": 4}


async def test_a_binding_that_may_not_be_sent_leaves_what_an_earlier_one_reserved(world):
    world.create()
    world.api.fail(LOST, "POST")
    await world.bind()
    world.leader = "another replica"
    assert await world.bind() == "another replica leads"
    assert (world.used(), world.stage()) == ({"a": 4}, ShareStage.RESERVED)


async def test_a_binder_is_unsettled_while_a_binding_is_under_way_or_its_outcome_unknown(world, clock, settle):
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


async def test_a_lost_answer_that_the_watch_brings_is_asked_for_no_more(world, settle):
    world.create()
    world.api.fail(LOST, "POST", answered=True)
    world.api.fail(LOST, "GET")
    await world.bind()
    world.show("p", "MODIFIED")
    assert world.stage() is ShareStage.CONFIRMED
    gets = world.api.gets
    await settle()
    assert (world.api.gets, world.binder.unsettled) == (gets, False)
