import pytest
from fake_api.server import FakeApi
from support.events import list_events

from accelkit.errors import ApiError
from accelkit.kube.events import Events
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.card import Card
from accelkit.node.discovery import FoundCard
from accelkit.node.health import HealthMonitor
from accelkit.node.health.card_errors import CardErrors
from accelkit.node.metrics import Metrics
from accelkit.node.own_node import OwnNode
from accelkit.vendors.profiles import load_profiles

REPAIRED = "accelkit.io/mended"
NVIDIA = load_profiles()["nvidia"]
CARDS = [FoundCard(Card(name, "nvidia", "m", 1, index=n), n, n, NVIDIA) for n, name in enumerate("ab")]


class Node:
    """A node with two cards, what was told of them, and its annotation."""

    def __init__(self, root):
        self.now = 0.0
        self.reports = {}
        self.api = FakeApi()
        self.api.store(NODES, {"metadata": {"name": "n", "annotations": {}}})
        self.monitor = HealthMonitor(root, nodes=lambda _: [], reported=lambda: self.reports)
        self.metrics = Metrics()
        self.node = OwnNode(self.api, "n", clock=lambda: self.now)
        events = Events(self.api, "agent", "n")
        self.errors = CardErrors(
            self.node, monitor=self.monitor, events=events, metrics=self.metrics, clock=lambda: self.now
        )

    @property
    def annotations(self):
        return self.api.objects[build_node_path("n")]["metadata"]["annotations"]

    @property
    def events(self):
        return list_events(self.api)

    async def look(self, reports=None, *, seconds=60):
        self.now += seconds
        self.reports = reports or {}
        await self.node.read()
        await self.errors.clear_repaired_faults(CARDS)
        self.monitor.observe(CARDS)
        await self.errors.report_xids()

    def count(self, xid, action):
        labels = {"card": "a", "xid": xid, "action": action}
        return self.metrics.registry.get_sample_value("accelkit_xids_total", labels)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


async def test_xid_is_reported_by_event_and_counted(node):
    await node.look({"a": [79]})
    assert node.events == [
        (
            "n",
            "CardError",
            "card a: the driver reported XID 79 (the card has fallen off the bus): drain the node and reset the card",
        )
    ]
    assert node.count("79", "drain-and-reset") == 1


async def test_repeated_xid_is_counted_each_time_but_reported_at_intervals(node):
    for _ in range(10):
        await node.look({"a": [94, 94]})
    assert (len(node.events), node.count("94", "watch")) == (1, 20)
    await node.look({"a": [94]}, seconds=600)
    assert len(node.events) == 2


async def test_xid_of_program_is_counted_without_event(node):
    await node.look({"a": [13]})
    assert (node.events, node.count("13", "ignore")) == ([], 1)


@pytest.mark.parametrize("words", ["a", "0", "card0", "all", "b, a"])
async def test_annotation_clears_fault_of_repaired_card_once(node, words):
    await node.look({"a": [64]})
    node.annotations[REPAIRED] = words
    await node.look()
    assert (node.monitor.list_faults(), node.annotations) == ({}, {})
    assert node.events[1:] == [("n", "CardMended", "card a was declared repaired")]
    await node.look({"a": [79]})
    assert list(node.monitor.list_faults()) == ["a"]


@pytest.mark.parametrize(
    ("word", "status", "said"), [("GPU-9", 0, "cannot clear the fault of GPU-9"), ("a", 403, "so it is ignored")]
)
async def test_fault_is_kept_if_annotation_is_invalid_or_cannot_be_removed(node, caplog, word, status, said):
    await node.look({"a": [64]})
    node.annotations[REPAIRED] = word
    if status:
        node.api.fail(ApiError("forbidden", status=status), "PATCH", times=None)
    await node.look()
    assert list(node.monitor.list_faults()) == ["a"]
    assert said in caplog.text
