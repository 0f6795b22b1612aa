import msgspec
import pytest
from support.pods import make_ref
from support.requests import build_request

from accelkit.errors import InventoryError
from accelkit.ledger.freed import FreedNodes
from accelkit.ledger.holding import ShareStage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.request import Kind
from accelkit.placement.policies import Policy

P, Q = (make_ref(name) for name in "pq")
ORDER = [("c", Kind.APP)]
CARD = Card("a", "v", "m", 16)


def inventory(*cards, unit_bytes=1):
    return Inventory(unit_bytes, cards)


def assigned(memory):
    return Assignment({"c": (Share("a", memory),)})


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.ledger.put_node("n", inventory(CARD))
        self.ledger.put_node("m", inventory(CARD))
        self.freed = FreedNodes(self.ledger)
        self.freed.find()

    def after(self, *changes):
        """What is freed by each of these changes of node n's cards."""
        found = []
        for change in changes:
            self.ledger.put_node("n", change)
            found.append(self.freed.find())
        return found


@pytest.fixture
def world():
    return World()


def test_first_call_returns_all_nodes_once(world):
    assert FreedNodes(world.ledger).find() == ["n", "m"]
    assert world.freed.find() == []


def test_end_of_bound_pod_between_two_calls_frees_node(world):
    # Another pod may have been refused while it was there.
    world.ledger.reserve(P, "n", build_request(16), Policy.BINPACK)
    world.ledger.accept(P.uid)
    world.ledger.release(P.uid)
    assert world.freed.find() == ["n"]
    assert world.freed.find() == []
    # A Binding that failed has kept nobody off for long, and pods are tried again by themselves.
    world.ledger.reserve(Q, "n", build_request(16), Policy.BINPACK)
    world.ledger.release(Q.uid)
    assert world.freed.find() == []


def test_decreased_compute_frees_node(world):
    world.ledger.reserve(P, "n", build_request(1, 500), Policy.BINPACK)
    world.ledger.reserve(Q, "n", build_request(1, 500), Policy.BINPACK)
    world.freed.find()
    world.ledger.confirm(P, "n", Assignment({"c": (Share("a", 1, 400),)}), ORDER)
    assert world.freed.find() == ["n"]


def test_end_of_share_without_amounts_frees_node(world):
    world.ledger.confirm(P, "n", Assignment({"c": (Share("a", 0, 0),)}), ORDER)
    world.freed.find()
    world.ledger.release(P.uid)
    assert world.freed.find() == ["n"]


def test_decreased_share_frees_node_and_increased_share_does_not(world):
    world.ledger.confirm(P, "n", assigned(8), ORDER)
    world.freed.find()
    world.ledger.confirm(P, "n", assigned(4), ORDER)
    assert world.freed.find() == ["n"]
    world.ledger.confirm(P, "n", assigned(6), ORDER)
    assert world.freed.find() == []


def test_confirmation_of_reserved_share_does_not_free_node(world):
    world.ledger.reserve(P, "n", build_request(4), Policy.BINPACK)
    world.freed.find()
    # The ledger releases the former holding and holds the new one, in one turn.
    world.ledger.confirm(P, "n", Assignment({"c": (Share("a", 4, 1),)}), ORDER, ShareStage.CONFIRMED)
    assert world.freed.find() == []


def test_node_is_freed_when_cards_of_unassigned_pod_become_known(world):
    world.ledger.put_node("n", inventory(CARD, msgspec.structs.replace(CARD, id="b")))
    world.ledger.confirm_unassigned(UnassignedPod(P, "n", build_request(4), "nobody knows"))
    world.freed.find()
    world.ledger.confirm(P, "n", assigned(4), ORDER)
    assert world.freed.find() == ["n"]


def test_node_is_freed_when_its_cards_become_placeable_again(world):
    sick = msgspec.structs.replace(CARD, health=Health.UNHEALTHY, health_reason="Xid 79")
    cordoned = msgspec.structs.replace(CARD, cordoned=True)
    good = inventory(CARD)
    assert world.after(inventory(sick), good) == [[], ["n"]]
    assert world.after(inventory(cordoned), good) == [[], ["n"]]
    assert world.after(None, good) == [[], ["n"]]
    assert world.after(InventoryError("unreadable"), good) == [[], ["n"]]
    assert world.after(inventory(CARD, unit_bytes=4), good) == [[], ["n"]]
    assert world.after(inventory(), good) == [[], ["n"]]


def test_added_or_changed_card_frees_node_and_removed_card_does_not(world):
    larger = msgspec.structs.replace(CARD, memory_bytes=32)
    second = msgspec.structs.replace(CARD, id="b")
    near = msgspec.structs.replace(CARD, memory_bytes=32, numa=1)
    assert world.after(inventory(larger), inventory(larger, second)) == [["n"], ["n"]]
    assert world.after(inventory(larger)) == [[]]
    assert world.after(inventory(near)) == [["n"]]


def test_returned_node_is_freed_and_dropped_node_is_not(world):
    world.ledger.drop_node("n")
    assert world.freed.find() == []
    world.ledger.put_node("n", inventory(CARD))
    assert world.freed.find() == ["n"]
