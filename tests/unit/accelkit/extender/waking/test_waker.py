import asyncio
import logging

import pytest
from fake_api.server import FakeApi
from prometheus_client import CollectorRegistry, Counter
from support.nodes import read_node
from support.pods import REFUSED, build_container, read_pod
from support.requests import build_inventory

from accelkit.errors import ApiError
from accelkit.extender.waking import waker as module
from accelkit.extender.waking.waker import Waker
from accelkit.kube.paths import NODES
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.inventory import encode_inventory
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

CARDS = encode_inventory(build_inventory("a"))


class World:
    def __init__(self):
        self.now, self.leads, self.read = 100.0, True, True
        self.api, self.ledger = FakeApi(), Ledger(unit_bytes=1)
        for name in ("n", "m"):
            self.api.store(NODES, {"metadata": {"name": name}})
        self.feed = LedgerFeed(self.ledger, load_dialects(("native", "gcushare")))
        self.counter = Counter("writes", "Counts.", ["result"], registry=CollectorRegistry())
        self.waker = Waker(
            self.api,
            self.ledger,
            self.feed,
            Policy.BINPACK,
            read=lambda: self.read,
            leads=lambda: self.leads,
            writes=self.counter,
            clock=lambda: self.now,
        )

    async def turns(self, count=1):
        for _ in range(count):
            self.now += 0.5
            await self.waker.announce_due()
        return self.written()

    def written(self):
        """The nodes that were written; each write holds one annotation and nothing else."""
        for patch in self.api.done:
            assert (patch.body.keys(), patch.body["metadata"].keys()) == ({"metadata"}, {"annotations"})
            assert patch.body["metadata"]["annotations"].keys() == {"accelkit.io/freed-at"}
        return [patch.path.removeprefix("/api/v1/nodes/") for patch in self.api.done]

    def cards(self, node="n", text=CARDS):
        self.feed.take_node_event("MODIFIED", read_node(node, text))

    def pod(self, name="p", memory=4, resource="accelkit.io/memory", kind="ADDED"):
        container = build_container({resource: memory})
        self.feed.take_pod_event(kind, read_pod(name, container, metadata={"uid": name}, status=REFUSED))

    def counted(self, result):
        return self.counter.labels(result)._value.get()


@pytest.fixture
async def world():
    world = World()
    await world.turns()
    return world


@pytest.mark.parametrize("resource", ["accelkit.io/memory", "enflame.com/gcu-memory"])
async def test_returned_cards_wake_pods_of_any_dialect(world, resource):
    world.pod(resource=resource)
    await world.turns(2)
    assert world.written() == []
    world.cards()
    assert await world.turns(20) == ["n"]
    assert world.counted("written") == 1


async def test_released_share_wakes_pod_that_now_fits(world):
    world.cards()
    world.pod("first", 10)
    request = world.feed.pending["first"].request
    world.ledger.reserve(world.feed.pending["first"].pod.ref, "n", request, Policy.BINPACK)
    world.pod("second", 10)
    assert await world.turns(100) == []
    world.pod("first", 10, kind="DELETED")
    assert await world.turns() == ["n"]


async def test_many_waiting_pods_are_woken_by_one_write(world):
    for number in range(500):
        world.pod(f"p{number}")
    await world.turns(2)
    world.cards()
    assert await world.turns(20) == ["n"]


async def test_waker_writes_nothing_if_no_pod_fits(world):
    world.cards()
    world.pod("too-large", 17)
    for _ in range(10):
        world.cards(text=None)
        await world.turns()
        world.cards()
        await world.turns()
    assert world.written() == []


async def test_cards_known_before_first_sync_do_not_wake_pods(world):
    world = World()
    world.read = False
    world.pod()
    world.cards()
    await world.turns(3)
    world.read = True
    assert await world.turns(10) == []
    world.cards("m")
    assert await world.turns(2) == ["m"]


async def test_only_leader_writes_and_new_leader_repeats_pending_announcements(world):
    world.leads = False
    world.pod()
    await world.turns(2)
    world.cards()
    assert await world.turns(10) == []
    world.leads = True
    assert await world.turns(10) == ["n"]


async def test_failed_write_is_logged_once_and_retried(world, caplog):
    caplog.set_level(logging.WARNING)
    world.pod()
    await world.turns(2)
    world.cards("m")
    world.cards("n")
    world.api.fail(ApiError("no answer"), times=2)
    world.api.fail(ApiError("denied", status=422))
    await world.turns(1)
    # A server that does not answer is not asked for the next node at once.
    assert len(world.api.requests) == 1
    assert set(await world.turns(30)) == {"m", "n"}
    assert [record.message for record in caplog.records] == [
        "cannot announce to kube-scheduler that node m was freed, will retry: no answer"
    ]
    assert (world.counted("failed"), world.counted("written")) == (3, 2)


async def test_failure_after_success_is_logged_again(world, caplog):
    world.pod(memory=16)
    await world.turns(2)
    for _ in range(2):
        world.api.fail(ApiError("no answer"), times=2)
        world.cards(text=None)
        await world.turns()
        world.cards()
        await world.turns(30)
    assert len(caplog.records) == 2
    assert world.counted("written") == 2


async def test_waker_runs_until_cancelled(world, monkeypatch):
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.001)
    running = asyncio.create_task(world.waker.run())
    world.pod()
    async with asyncio.timeout(60):
        for node in ("n", "m"):
            world.cards(node)
            while world.written()[-1:] != [node]:
                await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_wake_counters_start_at_zero_after_first_sync():
    world = World()
    world.read = False
    await world.turns()
    assert shown(world) == {}
    world.read = True
    await world.turns()
    assert shown(world) == {"written": 0, "failed": 0}


def shown(world):
    (family,) = world.counter.collect()
    return {each.labels["result"]: each.value for each in family.samples if each.name.endswith("_total")}


async def test_deleted_node_is_not_retried(world):
    world.pod()
    await world.turns(2)
    world.cards()
    world.api.objects.clear()
    assert await world.turns(200) == []
    assert world.counted("failed") == 1


@pytest.mark.parametrize("pauses", [(0, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (3, 2, 3)])
async def test_only_a_node_that_fits_a_waiting_pod_is_written(world, pauses):
    larger = encode_inventory(build_inventory("a", memory=32))
    world.cards("n")
    world.cards("m")
    await world.turns(pauses[0])
    world.cards("n", text=None)
    await world.turns(pauses[1])
    world.cards("n")
    await world.turns(pauses[2])
    world.pod(memory=32)
    world.cards("m", text=larger)
    assert await world.turns(20) == ["m"]
