"""What a new leader writes on pods that wait, so that no Binding of the former leader takes effect unseen."""

import asyncio

import pytest
from support.pods import make_ref

from accelkit.errors import ApiError
from accelkit.extender import fencing as module
from accelkit.extender.bindings import write_binding
from accelkit.extender.fencing import Fence
from accelkit.ledger.holding import ShareStage
from accelkit.model.keys import FENCED_AT_ANNOTATION


@pytest.fixture
def fenced(world, monkeypatch):
    """How often all was fenced; the former leader is whoever writes Bindings past the binder."""
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    world.fenced = []
    world.fence = Fence(
        world.api,
        world.feed,
        may_write=world.leads,
        take=world.binder.outcomes.take_read,
        on_fenced=lambda: world.fenced.append(True),
    )

    async def finish():
        world.fence.begin()
        async with asyncio.timeout(60):
            await asyncio.gather(world.fence._task, return_exceptions=True)

    world.finish = finish
    return world


def seen_version(world, name="p"):
    return world.feed.pending[f"uid-{name}"].version


async def bind_as_former(world, version, name="p"):
    try:
        await write_binding(world.api, make_ref(name), "n", {}, version=version)
    except ApiError as exc:
        return exc.reason or exc.status
    return ""


async def test_a_binding_that_was_sent_before_is_refused_after(fenced):
    fenced.create("p")
    fenced.create("q")
    await fenced.finish()
    assert fenced.fenced == [True]
    before = {name: seen_version(fenced, name) for name in "pq"}
    await fenced.finish()
    for name in "pq":
        assert fenced.api.pods[name]["metadata"]["annotations"][FENCED_AT_ANNOTATION]
        assert seen_version(fenced, name) != before[name]
        assert await bind_as_former(fenced, before[name], name) == "Conflict"
        assert await fenced.bind(name) == ""


async def test_a_binding_that_took_effect_before_is_counted(fenced):
    fenced.create("p")
    fenced.bound_elsewhere("m")
    await fenced.finish()
    assert (fenced.fenced, fenced.stage()) == ([True], ShareStage.BOUND)
    assert fenced.used("m") == {"b": 4}
    assert not fenced.feed.pending


@pytest.mark.parametrize("gone", [True, False])
async def test_a_pod_that_is_gone_needs_no_fence(fenced, gone):
    fenced.create("p")
    if gone:
        fenced.api.remove("p")
    else:
        fenced.api.pods["p"]["metadata"]["uid"] = "another"
    await fenced.finish()
    assert fenced.fenced == [True]


async def test_a_pod_that_was_deleted_meanwhile_does_not_wait_again(fenced):
    fenced.create("p")
    fenced.api.after.append(lambda _: fenced.show("p", "DELETED"))
    await fenced.finish()
    assert (fenced.fenced, fenced.feed.pending) == ([True], {})


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_what_is_not_answered_is_written_again(fenced, status):
    fenced.create("p")
    fenced.api.fail(ApiError("trouble", status=status), "PATCH", times=3)
    await fenced.finish()
    assert fenced.fenced == [True]
    assert sum(each.method == "PATCH" for each in fenced.api.requests) == 4


@pytest.mark.parametrize("status", [403, 422])
async def test_without_the_right_nothing_counts_as_fenced(fenced, status, caplog):
    fenced.create("p")
    fenced.create("q")
    fenced.api.fail(ApiError("no", status=status), "PATCH")
    await fenced.finish()
    assert fenced.fenced == []
    assert "cannot fence the waiting pods: no" in caplog.text


async def test_who_leads_no_longer_writes_nothing(fenced):
    fenced.create("p")
    fenced.leader = "other"
    await fenced.finish()
    assert (fenced.fenced, fenced.api.writes) == ([], [])


async def test_more_pods_than_can_be_fenced_in_time_are_not_begun(fenced, monkeypatch):
    monkeypatch.setattr(module, "MOST_PODS", 1)
    fenced.create("p")
    fenced.create("q")
    await fenced.finish()
    assert (fenced.fenced, fenced.api.writes) == ([], [])


async def test_what_was_begun_is_given_up_for_what_is_begun_later(fenced):
    fenced.create("p")
    gate = asyncio.Event()
    fenced.api.before.append(lambda _: gate.wait())
    fenced.fence.begin()
    await asyncio.sleep(0)
    first = fenced.fence._task
    gate.set()
    await fenced.finish()
    assert first.cancelled()
    assert fenced.fenced == [True]
