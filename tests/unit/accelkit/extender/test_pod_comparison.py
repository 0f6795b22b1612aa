"""Events of pods that a watch lost are found by a comparison, on an API server in memory."""

from types import SimpleNamespace

import msgspec
import pytest
from fake_api.server import FakeApi
from prometheus_client import Counter

from accelkit.errors import ApiError
from accelkit.extender import pod_comparison as module
from accelkit.extender.pod_comparison import PodComparison
from accelkit.kube.paths import PODS
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod
from accelkit.vendors.dialects import load_dialect

NAMESPACED = "/api/v1/namespaces/d/pods"


class World:
    """A feed that is given each change, unless it is lost, and how often all pods were listed anew."""

    def __init__(self):
        self.api = FakeApi()
        self.feed = LedgerFeed(Ledger(unit_bytes=1), [load_dialect("native")])
        self.relisted, self.changes, self.compares, self.late = 0, 0, True, []
        self.lost = Counter("lost", "Lost.", registry=None)
        self.comparison = PodComparison(
            self.api, self.feed, compares=lambda: self.compares, relist=self.relist, lost=self.lost
        )

    def relist(self):
        self.relisted += 1

    def change(self, name, *, lost=False):
        self.changes += 1
        metadata = {"name": name, "namespace": "d", "uid": name, "labels": {"change": str(self.changes)}}
        self.api.store(PODS, {"metadata": metadata, "spec": {}})
        pod = msgspec.json.decode(msgspec.json.encode(self.api._shown(f"{NAMESPACED}/{name}")), type=Pod)
        if not lost:
            self.feed.take_pod_event("MODIFIED", pod)
        return pod

    async def sleep(self, _seconds):
        for pod in self.late:
            self.feed.take_pod_event("MODIFIED", pod)


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=made.sleep))
    return made


async def test_comparison_does_not_relist_if_watch_delivered_all_events(world):
    for name in "pq":
        world.change(name)
    await world.comparison.compare()
    assert world.relisted == 0


async def test_comparison_relists_once_per_lost_change(world, caplog):
    world.change("p")
    world.change("q")
    world.change("p", lost=True)
    await world.comparison.compare()
    assert (world.relisted, world.lost._value.get()) == (1, 1)
    assert "events of pods lost, listing all pods again pods=1 first=d/p" in caplog.text
    # A list that does not heal it, as of a pod that cannot be read, is not made again.
    await world.comparison.compare()
    assert world.relisted == 1
    world.change("p", lost=True)
    await world.comparison.compare()
    assert world.relisted == 2


async def test_comparison_relists_after_lost_deletion(world):
    world.change("p")
    world.change("q")
    del world.api.objects[f"{NAMESPACED}/p"]
    world.change("r")
    await world.comparison.compare()
    assert world.relisted == 1


async def test_late_event_is_not_counted_as_lost(world):
    world.change("p")
    world.late.append(world.change("p", lost=True))
    await world.comparison.compare()
    assert (world.relisted, world.lost._value.get()) == (0, 0)


async def test_comparison_does_not_relist_after_leadership_loss(world):
    world.change("p", lost=True)
    world.compares = False
    await world.comparison.compare()
    assert world.relisted == 0


async def test_failed_list_raises_api_error(world):
    world.api.fail(ApiError("no answer"), path=PODS)
    with pytest.raises(ApiError):
        await world.comparison.compare()
