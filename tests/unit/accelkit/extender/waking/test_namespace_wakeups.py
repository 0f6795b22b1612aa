import json

import msgspec
import pytest
from support.pods import REFUSED, read_pod
from support.requests import build_inventory

from accelkit.extender.waking.announcements import Waiting
from accelkit.extender.waking.namespace_wakeups import NamespaceWakeups
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules
from accelkit.vendors.dialects import load_dialects


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.feed = LedgerFeed(self.ledger, load_dialects(["native"]))
        self.waiting = Waiting(self.ledger, Policy.BINPACK)
        self.wakeups = NamespaceWakeups(self.ledger, self.waiting)
        for number in range(12):
            self.ledger.put_node(f"n{number}", build_inventory("a"))
        self.feed.take_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": "10"}]}))

    def pod(self, name, memory=8, *, namespace="d", labels=None, request=None, refused=True):
        annotations = {"accelkit.io/request": json.dumps({"c": request})} if request else {}
        metadata = {"namespace": namespace, "uid": name, "labels": labels, "annotations": annotations}
        pod = read_pod(name, memory=memory, metadata=metadata, status=REFUSED if refused else {})
        self.feed.take_pod_event("ADDED", pod)

    def hold(self, name, node="n0", **of_pod):
        self.pod(name, refused=False, **of_pod)
        pending = self.feed.pending[name]
        self.ledger.reserve(pending.pod.ref, node, pending.request, Policy.BINPACK, pending.pod.labels)

    def refuse(self, name):
        with pytest.raises(MisfitError):
            self.ledger.reserve(self.feed.pending[name].pod.ref, "n1", self.feed.pending[name].request, Policy.BINPACK)

    def find(self, now=0.0):
        for _ in range(2):
            self.waiting.update(self.feed.pending)
        return self.wakeups.find(now)


@pytest.fixture
def world():
    return World()


def test_pods_are_woken_on_eight_nodes_after_namespace_usage_decreases(world):
    world.hold("held")
    world.pod("waits")
    world.refuse("waits")
    assert world.find() == []
    world.ledger.release("held")
    found = world.find()
    assert len(found) == len(set(found)) == 8
    # Once is enough.
    assert world.find(1.0) == []


def test_pod_refused_shortly_after_release_is_still_woken(world):
    world.hold("held")
    world.pod("first")
    world.refuse("first")
    world.ledger.release("held")
    assert len(world.find()) == 8
    world.pod("late", 7)
    assert len(world.find(29.0)) == 8
    world.pod("too-late", 6)
    assert world.find(31.0) == []


def test_pods_of_other_namespaces_or_without_fitting_node_are_not_woken(world):
    world.hold("held")
    world.pod("other", namespace="e")
    world.pod("large", 100)
    world.pod("waits")
    world.refuse("waits")
    world.feed.take_pod_event("DELETED", msgspec.convert({"metadata": {"name": "waits", "uid": "waits"}}, Pod))
    world.ledger.release("held")
    assert world.find() == []


def test_new_pod_on_node_wakes_pods_with_affinity_to_that_pod(world):
    world.pod("waits", 1, request={"with": {"matchLabels": {"app": "db"}}})
    world.ledger.resolve(world.feed.pending["waits"].request)
    world.hold("db", "n3", memory=1, labels={"app": "db"})
    assert world.find() == ["n3"]
    assert world.find() == []
