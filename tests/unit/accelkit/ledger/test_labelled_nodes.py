"""Nodes whose cards labels and status tell, and the amounts that pods take of them."""

import msgspec
import pytest
from support.nodes import read_node
from support.pods import build_container, read_pod

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Pod
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

I915 = "gpu.intel.com/i915"
LABELS = {"gpu.intel.com/cards": "card0.card1"}


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.feed = LedgerFeed(self.ledger, load_dialects(["native", "gas"]))

    def node(self, *, labels=LABELS, inventory=None, **amounts):
        allocatable = {f"gpu.intel.com/{name}": str(amount) for name, amount in amounts.items()}
        self.feed.take_node_event("MODIFIED", read_node("n", inventory, labels=labels, allocatable=allocatable))

    def read(self, name, *, init=(), annotations=(), node="", **amounts):
        def build(limits, name):
            return build_container({f"gpu.intel.com/{key}": str(amount) for key, amount in limits.items()}, name)

        inits = [build(limits, f"i{number}") for number, limits in enumerate(init)]
        metadata = {"uid": name, "annotations": dict(annotations)}
        return read_pod(name, build(amounts, "c"), initContainers=inits, metadata=metadata, nodeName=node)

    def place(self, name, **asked):
        """Reserve; the numbers of the cards, or why not."""
        pod = self.read(name, **asked)
        request = self.feed.read_pending(pod).request
        try:
            placed = self.ledger.reserve(pod.ref, "n", request, Policy.BINPACK)
        except MisfitError as exc:
            return exc.misfit
        return [share.card for share in placed.containers["c"]]

    @property
    def entry(self):
        return self.ledger.find_node("n")


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("counts", ["i915", "xe"])
@pytest.mark.parametrize("name", ["memory.max", "memory", "anything"])
def test_amount_that_no_single_card_has_free_is_refused(world, counts, name):
    world.node(**{counts: 20, name: 16 * 10**9})
    asked = {counts: 1, name: 5 * 10**9}
    assert [world.place("a", **asked), world.place("b", **asked)] == [["card0"], ["card1"]]
    refused = world.place("c", **asked)
    assert refused.reason is (MisfitReason.MEMORY if name == "memory.max" else MisfitReason.AMOUNT)
    assert refused.resolvable
    world.ledger.release("a")
    assert world.place("c", **asked) == ["card0"]


def test_amounts_and_slots_of_node_are_divided_over_its_cards(world):
    world.node(i915=4, foo=21)
    assert world.place("a", i915=2, foo=15) == ["card0", "card1"]
    # 7 of 10 are gone on each, and each may be given once more.
    assert world.place("b", i915=1, foo=4) == Misfit(MisfitReason.AMOUNT, 1, "gpu.intel.com/foo")
    assert world.place("b", i915=2, foo=6) == ["card0", "card1"]
    assert world.place("c", i915=1) == Misfit(MisfitReason.AMOUNT, 1, I915)
    never = world.place("d", i915=1, foo=11)
    assert (never.reason, never.resolvable) == (MisfitReason.AMOUNT, False)


def test_card_without_free_compute_fits_other_amounts(world):
    world.node(i915=4, millicores=2000, foo=20)
    assert world.place("a", i915=2, millicores=2000, foo=14) == ["card0", "card1"]
    assert world.place("b", i915=1, foo=3) == ["card0"]
    assert world.place("c", i915=1, millicores=1).reason is MisfitReason.COMPUTE


def test_request_for_amount_that_node_lacks_is_refused(world):
    world.node(i915=2, little=1)
    assert world.place("a", i915=1, bar=1) == Misfit(MisfitReason.AMOUNT, 1, "gpu.intel.com/bar", resolvable=False)
    # Less than one for each card.
    assert world.place("a", i915=2, little=1).detail == "gpu.intel.com/little"
    assert world.place("a", i915=1, **{"memory.max": 1}).reason is MisfitReason.MEMORY
    assert world.place("a", i915=1) == ["card0"]


def test_app_container_reuses_amounts_of_init_container(world):
    world.node(i915=20, foo=20)
    assert world.place("a", init=[{"i915": 1, "foo": 8}], i915=1, foo=4) == ["card0"]
    assert world.entry.uses["card0"].used_amounts == (("gpu.intel.com/foo", 8), (I915, 1))
    world.ledger.release("a")
    assert world.entry.uses == {}


def test_labelled_cards_follow_labels_allocatable_and_inventory(world):
    world.node(labels={})
    assert world.entry.problem.reason is MisfitReason.NO_INVENTORY
    world.node(labels={"gpu.intel.com/cards": "0"})
    assert world.entry.problem.reason is MisfitReason.BAD_INVENTORY
    world.node(i915=2)
    assert [card.amounts for card in world.entry.list_cards()] == [((I915, 1),)] * 2
    world.node(i915=4, labels={**LABELS, "telemetry.aware.scheduling.p/gas-disable-card1": ""})
    assert [(card.amounts, card.placeable) for card in world.entry.list_cards()] == [
        (((I915, 2),), True),
        (((I915, 2),), False),
    ]
    # Our agent knows better.
    world.node(i915=4, inventory=Inventory(1, (Card("uuid", "intel", "m", 16, minor=0),)), labels={})
    assert [(card.id, card.amounts) for card in world.entry.list_cards()] == [("uuid", ((I915, 4),))]


def test_pods_are_charged_by_limits_regardless_of_annotations(world):
    world.node(i915=20, foo=20)
    share = '{"card": "card1", "memory_bytes": 0, "amounts": [["gpu.intel.com/foo", 0]]}'
    lie = f'{{"version": 1, "containers": {{"c": [{share}]}}}}'
    world.feed.take_pod_event(
        "ADDED", world.read("a", node="n", annotations={"accelkit.io/assignment": lie}, i915=1, foo=9)
    )
    assert world.entry.uses["card1"].used_amounts == (("gpu.intel.com/foo", 9), (I915, 1))
    # Another scheduler's pod is taken over by what that one wrote.
    world.feed.take_pod_event(
        "ADDED", world.read("b", node="n", annotations={"gas-container-cards": "card0"}, i915=1, foo=3)
    )
    assert dict(world.entry.uses["card0"].used_amounts)["gpu.intel.com/foo"] == 3
    # Nobody knows where this one is: it may be on any card.
    world.feed.take_pod_event("ADDED", world.read("c", node="n", i915=1, foo=5))
    left = {state.card.id: dict(state.free_amounts)["gpu.intel.com/foo"] for state in world.entry.list_card_states()}
    assert left == {"card0": 2, "card1": -4}


def test_inventory_card_has_unlimited_slots_if_node_reports_none(world):
    world.node(inventory=Inventory(1, (Card("uuid", "intel", "m", 16, minor=0),)), labels={})
    assert world.place("a", i915=1, **{"memory.max": 8}) == ["uuid"]
    assert world.place("b", xe=1, millicores=500) == ["uuid"]
    assert world.entry.list_card_states()[0].free_compute == WHOLE_COMPUTE - 500


def test_card_held_whole_refuses_request_without_amounts(world):
    world.node(inventory=Inventory(1, (Card("uuid", "intel", "m", 16, minor=0),)), labels={})
    limits = {"name": "c", "resources": {"limits": {"accelkit.io/cards": "1"}}}
    metadata = {"name": "w", "namespace": "d", "uid": "w"}
    whole = msgspec.convert({"metadata": metadata, "spec": {"containers": [limits]}}, Pod)
    world.ledger.reserve(whole.ref, "n", world.feed.read_pending(whole).request, Policy.BINPACK)
    assert world.place("a", i915=1) == Misfit(MisfitReason.AMOUNT, 1, I915)
    world.ledger.release("w")
    assert world.place("a", i915=1) == ["uuid"]
