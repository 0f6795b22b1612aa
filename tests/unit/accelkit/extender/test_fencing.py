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


async def test_binding_with_version_from_before_the_fence_is_refused(fenced):
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


async def test_binding_that_succeeded_before_the_fence_is_recorded(fenced):
    fenced.create("p")
    fenced.bound_elsewhere("m")
    await fenced.finish()
    assert (fenced.fenced, fenced.stage()) == ([True], ShareStage.BOUND)
    assert fenced.used("m") == {"b": 4}
    assert not fenced.feed.pending


@pytest.mark.parametrize("gone", [True, False])
async def test_deleted_or_replaced_pod_needs_no_fence(fenced, gone):
    fenced.create("p")
    if gone:
        fenced.api.remove("p")
    else:
        fenced.api.pods["p"]["metadata"]["uid"] = "another"
    await fenced.finish()
    assert fenced.fenced == [True]


async def test_pod_deleted_during_fencing_is_not_pending_again(fenced):
    fenced.create("p")
    fenced.api.after.append(lambda _: fenced.show("p", "DELETED"))
    await fenced.finish()
    assert (fenced.fenced, fenced.feed.pending) == ([True], {})


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_unanswered_fence_write_is_retried(fenced, status):
    fenced.create("p")
    fenced.api.fail(ApiError("trouble", status=status), "PATCH", times=3)
    await fenced.finish()
    assert fenced.fenced == [True]
    assert sum(each.method == "PATCH" for each in fenced.api.requests) == 4


@pytest.mark.parametrize("status", [403, 422])
async def test_refused_fence_write_does_not_count_as_fenced(fenced, status, caplog):
    fenced.create("p")
    fenced.create("q")
    fenced.api.fail(ApiError("no", status=status), "PATCH")
    await fenced.finish()
    assert fenced.fenced == []
    assert "cannot fence the waiting pods: no" in caplog.text


async def test_former_leader_writes_no_fence(fenced):
    fenced.create("p")
    fenced.leader = "other"
    await fenced.finish()
    assert (fenced.fenced, fenced.api.writes) == ([], [])


async def test_fencing_is_skipped_for_too_many_pending_pods(fenced, monkeypatch):
    monkeypatch.setattr(module, "MOST_PODS", 1)
    fenced.create("p")
    fenced.create("q")
    await fenced.finish()
    assert (fenced.fenced, fenced.api.writes) == ([], [])


async def test_new_fencing_run_cancels_the_previous_run(fenced):
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
