"""Reservations across terms of a leader: which ones are released, and when binds may start."""

import asyncio
import contextlib
import json
import time

import pytest
from support.waiting import until

from accelkit.errors import ApiError, PluginError
from accelkit.extender import binder
from accelkit.extender.fencing import Fence

LOST = ApiError("no answer")


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_reservation_in_flight_is_not_released_by_later_bind_of_same_term(world):
    """The bind of `p` waits during a term of another leader, and its Binding is sent before any other bind."""
    go = asyncio.Event()

    async def admit(ref, _node):
        # For example, `p` is a member of a group.
        if ref.name == "p":
            await go.wait()

    world.binder._admit = admit
    world.create(memory=16)
    p = asyncio.create_task(world.bind())
    await turns()
    world.leader = "other"
    await turns()
    world.leader = ""
    world.binder.begin_term(time.monotonic() + 0.05)
    await asyncio.sleep(0.1)
    assert world.binder.try_open()
    world.api.gate.clear()
    go.set()
    await until(lambda: world.api.posts)
    # The Binding of `p` is in flight.
    world.create("q", memory=16)
    q = asyncio.create_task(world.bind("q"))
    await turns()
    world.api.gate.set()
    assert await p == ""
    await q
    cards = [post["metadata"]["annotations"]["accelkit.io/assignment"] for post in world.api.posts]
    assert len(set(cards)) == len(cards), cards


async def test_outdated_reservation_is_not_sent_after_opening_by_time(world):
    """A Binding is rejected with Conflict in one term, and the pod is read in the next one."""
    world.create()
    world.show_current()

    def fence(request):
        # The other leader fences `p`.
        if request.method == "POST" and len(world.api.posts) == 1:
            world.leader = "other"
            world.api.pods["p"]["metadata"]["annotations"]["accelkit.io/fenced-at"] = "x"

    world.api.before.append(fence)
    world.api.answers.clear()
    p = asyncio.create_task(world.bind())
    await until(lambda: world.api.gets == 1)
    world.leader = ""
    world.binder.begin_term(time.monotonic() + 0.05)
    await asyncio.sleep(0.1)
    world.api.answers.set()
    answer = await p
    assert (len(world.api.posts), answer != "") == (1, True)


async def test_failure_during_release_keeps_no_outdated_reservation(world):
    for name in "pr":
        world.create(name)
        world.api.fail(LOST, "POST")
        world.api.fail(LOST, "GET")
        assert await world.bind(name)
    failed = []

    def fail_once(uid):
        # Holds.note -> claim -> a policy of a plug-in that fails.
        if not failed:
            failed.append(uid)
            raise PluginError("the policy failed")

    world.binder._on_released = fail_once
    world.create("q")
    world.binder.begin_term(time.monotonic())
    with contextlib.suppress(PluginError):
        await world.bind("q")
    assert failed == ["uid-p"]
    outdated = world.ledger.find_holding("uid-r")
    await world.bind("r")
    now = world.ledger.find_holding("uid-r")
    assert outdated is None or now is None or now.pod.uid not in world.binder.outcomes
    assert not (outdated is not None and now is not None), "the reservation of the earlier term was sent again"


def cards(world):
    """The memory of each card of node n, counted from the pods alone."""
    found = {}
    for pod in world.api.pods.values():
        if pod["spec"].get("nodeName"):
            text = pod["metadata"]["annotations"]["accelkit.io/assignment"]
            for shares in json.loads(text)["containers"].values():
                for share in shares:
                    found[share["card"]] = found.get(share["card"], 0) + share["memory_bytes"]
    return found


async def test_binding_that_arrives_late_is_refused(world, clock, settle):
    """The leader does not change. The kernel retransmits the Binding, or the API server queues it, for over 10 s."""
    fence = Fence(
        world.api, world.feed, may_write=lambda: True, take=world.binder.outcomes.take_read, on_fenced=lambda: None
    )
    world.binder.outcomes.fence = fence.fence_pod
    world.create(memory=16)
    world.show_current()
    world.api.fail(LOST, "POST")
    assert "no answer" in await world.bind()
    late = world.api.requests[[r.method for r in world.api.requests].index("POST")]
    clock.now += 11
    await settle()
    world.create("q", memory=16)
    world.show_current("q")
    assert await world.bind("q") == ""
    with pytest.raises(ApiError) as caught:
        await world.api.post(late.path, late.body)
    assert caught.value.conflict
    assert max(cards(world).values()) <= 16, cards(world)


@pytest.mark.parametrize(("status", "released"), [(0, False), (409, False), (403, True), (422, True)])
async def test_reservation_is_kept_only_while_fencing_may_succeed_later(world, clock, settle, status, released):
    async def fence(_pod):
        raise ApiError("rejected", status=status)

    world.binder.outcomes.fence = fence
    world.create()
    world.show_current()
    world.api.fail(LOST, "POST")
    assert await world.bind()
    clock.now += 11
    await settle()
    assert world.used() == ({} if released else {"a": 4})


class CodecError(Exception):
    """An error that is not an AccelkitError."""


async def test_reservation_is_released_if_annotations_cannot_be_built(world, settle, monkeypatch):
    world.create()
    with monkeypatch.context() as patch:
        patch.setattr(binder, "build_annotations", lambda *_, **__: (_ for _ in ()).throw(CodecError()))
        with pytest.raises(CodecError):
            await world.bind()
    await settle()
    assert (world.used(), world.binder.unsettled) in [({}, False), ({"a": 4}, True)]
