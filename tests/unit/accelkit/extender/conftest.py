from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from accelkit.errors import AccelkitError, ApiError, NotLeadingError
from accelkit.extender import binder as module
from accelkit.extender.binder import Binder
from accelkit.extender.readiness import Readiness
from accelkit.extender.wire import BindingArgs
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Pod
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

OTHERS = encode_assignment(Assignment({"c": (Share("b", 5),)}))


class FakeApi:
    """Pods in memory under the API server's rules for Bindings; faults are raised once, before or after the effect."""

    def __init__(self):
        self.pods = {}
        self.posts = []
        self.gets = 0
        self.before_post, self.after_post, self.before_get = [], [], []
        self.gate = asyncio.Event()
        self.gate.set()
        self.answers = asyncio.Event()
        self.answers.set()

    async def get(self, path, **_):
        self.gets += 1
        if self.before_get and (fault := self.before_get.pop(0)):
            raise fault
        name = path.rsplit("/", 1)[1]
        if name not in self.pods:
            raise ApiError(f'pods "{name}" not found', status=404)
        answer = msgspec.json.encode(self.pods[name])
        await self.answers.wait()
        return answer

    async def post(self, path, body, **_):
        self.posts.append(body)
        await self.gate.wait()
        if self.before_post:
            raise self.before_post.pop(0)
        assert path == f"/api/v1/namespaces/d/pods/{body['metadata']['name']}/binding"
        pod = self.pods.get(body["metadata"]["name"])
        if pod is None:
            raise ApiError("not found", status=404)
        if pod["metadata"]["uid"] != body["metadata"]["uid"] or pod["spec"].get("nodeName"):
            raise ApiError("conflict", status=409)
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"]["annotations"] |= body["metadata"].get("annotations", {})
        if self.after_post:
            raise self.after_post.pop(0)
        return b""


class World:
    def __init__(self, dialects=("native", "gcushare")):
        self.api = FakeApi()
        self.ledger = Ledger(unit_bytes=1)
        for node in ("n", "m"):
            self.ledger.put_node(node, Inventory(1, (Card("a", "v", "m", 16), Card("b", "v", "m", 16))))
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
        self.api.pods[name] = {
            "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {resource: memory} if memory else {}}}]},
        }
        if watched:
            self.show(name)

    def show(self, name, kind="ADDED"):
        self.feed.pod_event(kind, msgspec.convert(self.api.pods[name], Pod))

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
        return {card: use.used_bytes for card, use in self.ledger.node(node).uses.items()}

    def stage(self, name="p"):
        held = self.ledger.holding(f"uid-{name}")
        return None if held is None else held.stage


@pytest.fixture
async def world():
    return World()


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def settle(world, monkeypatch):
    """Let the settling task look at everything that is unsettled."""
    monkeypatch.setattr(module, "_SETTLE_INTERVAL", 0)

    async def settle():
        task = asyncio.create_task(world.binder.settle())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return settle
