"""What the verbs and the simulator say where there are rules of sharing."""

import json

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.pods import build_pod

from accelkit.extender.sharing.metrics import SharingCollector
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import Pod
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import NO_RULES, read_rules
from accelkit.vendors.dialects import load_dialects

GIB = 2**30
QUOTA = read_rules({"quotas": [{"namespaces": ["d"], "memory": "10GiB", "cards": 3}]})
RESERVED = read_rules(
    {"reservations": [{"name": "r", "cards": [{"nodes": ["n"]}], "for": [{"priority": 10}, {"namespaces": ["ml"]}]}]}
)


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=GIB)
        self.feed = LedgerFeed(self.ledger, load_dialects(["native"]))
        self.verbs = Verbs(self.ledger, self.feed, Policy.BINPACK)
        for name in ("n", "m"):
            cards = tuple(Card(f"{name}-{number}", "v", "m", 16 * GIB) for number in range(2))
            self.ledger.put_node(name, Inventory(GIB, cards))

    def pod(self, name="p", memory=4, *, namespace="d", priority=0, labels=None, request=None, kind=PendingPod):
        annotations = {"accelkit.io/request": json.dumps({"c": request})} if request else {}
        metadata = {"namespace": namespace, "uid": name, "labels": labels, "annotations": annotations}
        return msgspec.convert(build_pod(name, memory=memory, metadata=metadata, priority=priority), kind)

    def hold(self, name, node, **of_pod):
        pod = self.pod(name, kind=Pod, **of_pod)
        self.feed.take_pod_event("ADDED", pod)
        pending = self.feed.pending[name]
        self.ledger.reserve(pending.pod.ref, node, pending.request, Policy.BINPACK, pending.pod.labels)

    async def filter(self, **of_pod):
        result = await self.verbs.filter(Args(self.pod(**of_pod), NodeNames=["n", "m"]))
        return result.NodeNames, result.FailedNodes or {}, result.FailedAndUnresolvableNodes or {}

    async def ask(self, without=(), **of_pod):
        question = SimulationQuestion(self.pod(**of_pod), None, list(without))
        answer = await Simulator(self.ledger, self.feed, self.verbs).simulate(question)
        return msgspec.json.decode(answer, type=Simulation)


@pytest.fixture
def world():
    return World()


async def test_filter_refuses_pod_over_quota_on_every_node_as_unresolvable(world):
    world.feed.take_rules(QUOTA)
    world.hold("one", "n", memory=8)
    sentence = "namespace d holds 8 GiB of its quota of 10 GiB (memory); the pod requests 4 GiB"
    everywhere = {"n": sentence, "m": sentence}
    assert await world.filter() == ([], everywhere, everywhere)
    assert (await world.filter(namespace="e"))[0] == ["n", "m"]
    world.ledger.release("one")
    assert (await world.filter())[0] == ["n", "m"]


async def test_filter_but_not_simulation_marks_namespace_over_quota_for_retry(world):
    world.feed.take_rules(QUOTA)
    for asks, retriable in ((world.ask, set()), (world.filter, {"d"})):
        world.hold("one", "n", memory=8)
        await asks()
        world.ledger.release("one")
        assert world.ledger.namespaces.retriable == retriable


async def test_simulation_explains_quota_and_fits_without_named_pod(world):
    world.feed.take_rules(QUOTA)
    world.hold("one", "n", memory=8)
    answer = await world.ask()
    assert answer.refusal.startswith("namespace d holds 8 GiB")
    assert {node.reason for node in answer.nodes} == {"QuotaExceeded"}
    answer = await world.ask(without=["d/one"])
    assert (answer.refusal, [node.fits for node in answer.nodes]) == ("", [True, True])


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, ["m"]),
        ({"priority": 10}, ["n", "m"]),
        ({"priority": 9}, ["m"]),
        ({"namespace": "ml"}, ["n", "m"]),
        ({"request": {"priority": 10}}, []),
    ],
)
async def test_reserved_cards_fit_only_listed_namespaces_and_priorities(world, more, fits):
    world.feed.take_rules(RESERVED)
    assert (await world.filter(**more))[0] == fits


async def test_simulation_explains_reservation_for_each_card(world):
    world.feed.take_rules(RESERVED)
    reason = "priority 10 and above or namespace ml (r)"
    node = next(each for each in (await world.ask()).nodes if each.name == "n")
    assert node.sentence == f"the cards with room are reserved for {reason}"
    assert not node.resolvable
    assert {refusal.sentence for card in node.cards for refusal in card.refusals} == {f"it is reserved for {reason}"}


async def test_pending_pods_are_reevaluated_when_rules_change(world):
    world.feed.take_pod_event("ADDED", world.pod(kind=Pod))
    for rules, closed in ((RESERVED, frozenset({"r"})), (NO_RULES, frozenset())):
        world.feed.take_rules(rules)
        assert world.feed.pending["p"].request.containers[0].closed == closed


async def test_simulation_explains_pod_affinity_and_names_pods_that_must_end(world):
    web = {"matchLabels": {"app": "web"}}
    for name, card in (("one", "n-0"), ("two", "n-1")):
        world.hold(name, "n", memory=1, labels={"app": "web"}, request={"card_ids": [card]})
    asked = {"request": {"apart": web}}
    assert (await world.filter(**asked))[0] == ["m"]
    node = next(each for each in (await world.ask(**asked)).nodes if each.name == "n")
    assert (
        node.sentence == "the pod must not share cards with pods that have app=web, and these use every card with room"
    )
    kinds = {change.kind: change for change in node.changes}
    assert [pod.name for pod in kinds["pods_ended"].pods] in (["one"], ["two"])
    assert kinds["without_constraint"].constraint == "apart"
    beside = {"request": {"with": web}}
    assert (await world.filter(**beside))[0] == ["n"]
    node = next(each for each in (await world.ask(**beside)).nodes if each.name == "m")
    assert node.cards[0].refusals[0].sentence == "no pod with app=web holds a share of it"


async def test_pod_metadata_does_not_bypass_quota(world):
    world.feed.take_rules(QUOTA)
    world.hold("one", "n", memory=8)
    for more in ({"request": {"compute": 0, "min_memory": 0}}, {"labels": {"accelkit.io/quota": "none"}}):
        assert (await world.filter(**more))[0] == []
    # Another pod's labels and annotations do not lower what is held.
    lying = world.pod("one", 8, labels={"x": "y"}, request={"policy": "spread"}, kind=Pod)
    lying.spec.node_name = "n"
    lying.metadata.annotations["accelkit.io/assignment"] = json.dumps(
        {"version": 1, "containers": {"c": [{"card": "n-0", "memory_bytes": 1}]}}
    )
    world.feed.take_pod_event("MODIFIED", lying)
    assert world.ledger.namespaces.get_held("d").memory_bytes == 8 * GIB
    assert (await world.filter())[0] == []


def test_quotas_are_exported_as_metrics(world):
    world.feed.take_rules(QUOTA)
    world.hold("one", "n", memory=8)
    world.hold("other", "n", memory=1, namespace="e")
    registry = CollectorRegistry()
    registry.register(SharingCollector(world.ledger, lambda: False))
    text = generate_latest(registry).decode()
    assert 'accelkit_quota_used{namespace="d",of="memory"} 8.589934592e+09' in text
    assert 'accelkit_quota_limit{namespace="d",of="cards"} 3.0' in text
    assert 'namespace="e"' not in text
    assert "accelkit_sharing_rules_current 0.0" in text
