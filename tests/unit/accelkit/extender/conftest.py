import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from extender_cluster import Cluster
from fake_api.server import FakeApi
from support.pods import build_container, build_pod
from support.requests import build_inventory
from support.tasks import running

from accelkit.errors import AccelkitError, NotLeadingError
from accelkit.extender import binder as module
from accelkit.extender import binding_outcomes, leadership, service
from accelkit.extender.binder import Binder
from accelkit.extender.readiness import Readiness
from accelkit.extender.waking import waker
from accelkit.extender.wire import BindingArgs
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

OTHERS = encode_assignment(Assignment({"c": (Share("b", 4),)}))


class BindingApi(FakeApi):
    """Pods by name; a POST waits for the gate, the answer to a GET for `answers`."""

    def __init__(self):
        super().__init__()
        self.gate, self.answers = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.answers.set()
        self.before.append(lambda request: self.gate.wait() if request.method == "POST" else None)
        self.after.append(lambda request: self.answers.wait() if request.method == "GET" else None)

    @property
    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.objects.values()}

    def remove(self, name):
        del self.objects[build_pod_path("d", name)]

    @property
    def posts(self):
        return [request.body for request in self.requests if request.method == "POST"]

    @property
    def gets(self):
        return sum(request.method == "GET" for request in self.requests)


class World:
    def __init__(self, dialects=("native", "gcushare")):
        self.api = BindingApi()
        self.ledger = Ledger(unit_bytes=1)
        for node in ("n", "m"):
            self.ledger.put_node(node, build_inventory("a", "b"))
        loaded = load_dialects(dialects)
        self.feed = LedgerFeed(self.ledger, loaded)
        self.synced, self.silence, self.pods_current, self.leader = True, 0.0, True, ""
        self.readiness = Readiness(
            synced=lambda: self.synced,
            silent_seconds=lambda: self.silence,
            leadership=self,
            pods_current=lambda: self.pods_current,
        )
        self.binder = Binder(self.api, self.ledger, self.feed, Policy.BINPACK, readiness=self.readiness)

    def leads(self):
        return not self.leader

    def check(self):
        if self.leader:
            raise NotLeadingError(f"{self.leader} leads")

    def create(self, name="p", memory=4, *, watched=True, resource="accelkit.io/memory", **annotations):
        limits = build_container({resource: memory} if memory else {})
        self.api.store(PODS, build_pod(name, limits, metadata={"annotations": annotations}))
        if watched:
            self.show(name)

    def show(self, name, kind="ADDED"):
        self.feed.take_pod_event(kind, msgspec.convert(self.api.pods[name], Pod))

    def show_current(self, name="p"):
        """Show a pod with the version that the API server would return; return that version."""
        pod = msgspec.convert(self.api._shown(build_pod_path("d", name)), Pod)
        self.feed.take_pod_event("MODIFIED", pod)
        return pod.metadata.resource_version

    async def bind(self, name="p", node="n", uid=""):
        """Bind a pod; return the sentence that kube-scheduler reads, empty for success."""
        try:
            await self.binder.bind(BindingArgs(name, "d", uid or f"uid-{name}", node))
        except AccelkitError as exc:
            return str(exc)
        return ""

    def bound_elsewhere(self, node="m", name="p"):
        self.api.pods[name]["spec"]["nodeName"] = node
        self.api.pods[name]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] = OTHERS

    def used(self, node="n"):
        return {card: use.used_bytes for card, use in self.ledger.find_node(node).uses.items()}

    def stage(self, name="p"):
        held = self.ledger.find_holding(f"uid-{name}")
        return None if held is None else held.stage


@pytest.fixture
async def world():
    return World()


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster for the whole extender, which does every few milliseconds what it does every few seconds elsewhere.

    Where it waits for a predecessor's Bindings, no test waits for it.
    """
    monkeypatch.setattr(service, "PREDECESSOR_SECONDS", 60.0)
    monkeypatch.setattr(service, "TAKEOVER_SECONDS", 60.0)
    monkeypatch.setattr(leadership, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(binding_outcomes, "_SETTLE_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(waker, "_TURN_SECONDS", 0.02)
    return Cluster(tmp_path)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    for each in (module, binding_outcomes):
        monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def settle(world, monkeypatch):
    """Let the settling task look at everything that is unsettled."""
    monkeypatch.setattr(binding_outcomes, "_SETTLE_INTERVAL_SECONDS", 0)

    async def settle():
        async with running(world.binder.outcomes.run()):
            for _ in range(20):
                await asyncio.sleep(0)

    return settle
