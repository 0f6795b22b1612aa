"""Answers that arrive after things went on decide nothing."""

from __future__ import annotations

import asyncio
import gc

import pytest
from support.tasks import running

from accelkit.errors import ApiError
from accelkit.extender import binding_outcomes
from accelkit.ledger.holding import ShareStage

LOST = ApiError("no answer")


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("bound", [True, False])
async def test_late_unbound_answer_does_not_release_retried_binding(world, clock, monkeypatch, bound):
    monkeypatch.setattr(binding_outcomes, "_SETTLE_INTERVAL_SECONDS", 0)
    world.create(memory=16)
    world.api.fail(LOST, "POST")
    assert "no answer" in await world.bind()
    clock.now += 11
    # The question whether that Binding exists is not answered so far.
    world.api.answers.clear()
    async with running(world.binder.outcomes.run()):
        await turns()
        if not bound:
            world.api.gate.clear()
        binding = asyncio.create_task(world.bind())
        await turns()
        assert binding.done() is bound
        world.api.answers.set()
        await turns()
        assert world.used() == {"a": 16}
        world.api.gate.set()
        assert await binding == ""
    assert world.stage() is ShareStage.BOUND


async def test_pod_deleted_before_binding_response_is_released(world, settle):
    world.create()
    world.api.fail(LOST, "POST", answered=True)
    world.api.answers.clear()
    binding = asyncio.create_task(world.bind())
    await turns()
    world.show("p", "DELETED")
    world.api.remove("p")
    world.api.answers.set()
    assert await binding == ""
    await settle()
    assert world.used() == {}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [({"leader": "other"}, "other leads"), ({"pods_current": False}, "the pods are being read again")],
)
async def test_bind_that_may_no_longer_be_sent_is_refused_and_holds_nothing(world, state, sentence):
    world.create()
    vars(world).update(state)
    assert await world.bind() == sentence
    assert (world.api.posts, world.used()) == ([], {})


async def test_refused_bind_with_cancelled_caller_raises_no_event_loop_error(world):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    world.create()
    world.api.gate.clear()
    world.api.fail(ApiError("forbidden", status=403), "POST")
    caller = asyncio.create_task(world.bind())
    await turns()
    caller.cancel()
    world.api.gate.set()
    await turns()
    gc.collect()
    assert (errors, world.used()) == ([], {})
