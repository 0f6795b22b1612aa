import pytest
from support.requests import build_inventory, build_request

from accelkit.errors import InventoryError
from accelkit.inspection.accounting import AccountingFinding, FindingKind, check
from accelkit.inspection.inspection import view
from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind

GIB = 2**30


@pytest.fixture
def ledger():
    ledger = Ledger()
    ledger.put_node("n", Inventory(GIB, (Card("a", "v", "m", 16 * GIB), Card("b", "v", "m", None))))
    return ledger


def hold(ledger, name, card, memory, *, whole=False):
    share = Share(card, memory * GIB, whole=whole)
    ledger.confirm(PodRef("d", name, name), "n", Assignment({"c": (share,)}), [("c", Kind.APP)])


def findings(ledger, min_free=0):
    return [(each.card, each.kind) for each in check(view(ledger.list_nodes()), min_free_bytes=min_free * GIB)]


def test_finding_kinds_have_stable_names():
    assert {each.value for each in FindingKind} == {
        "over_capacity",
        "shared_whole_card",
        "unknown_card",
        "unassigned_pod",
        "unknown_inventory",
        "low_free",
    }


def test_card_over_capacity_is_found_with_its_amounts(ledger):
    hold(ledger, "p", "a", 12)
    hold(ledger, "q", "a", 8)
    message = "card a of n has 16 GiB, but its shares use 20 GiB"
    assert check(view(ledger.list_nodes())) == [
        AccountingFinding("n", "a", FindingKind.OVER_CAPACITY, message, 16 * GIB, 20 * GIB, -4 * GIB)
    ]


def test_low_free_card_is_found_only_if_minimum_is_set(ledger):
    hold(ledger, "p", "a", 14)
    assert findings(ledger) == []
    assert findings(ledger, min_free=2) == []
    message = "card a of n has 2 GiB free, less than 3 GiB"
    assert check(view(ledger.list_nodes()), min_free_bytes=3 * GIB) == [
        AccountingFinding("n", "a", FindingKind.LOW_FREE, message, 16 * GIB, 14 * GIB, 2 * GIB)
    ]


def test_card_with_unknown_memory_is_neither_full_nor_low_on_free_memory(ledger):
    hold(ledger, "p", "b", 4)
    assert findings(ledger, min_free=1) == []


@pytest.mark.parametrize(("first", "second"), [(True, False), (True, True)])
def test_shared_whole_card_is_found(ledger, first, second):
    hold(ledger, "p", "a", 0, whole=first)
    hold(ledger, "q", "a", 0, whole=second)
    message = "card a of n is assigned to one pod as a whole card, but other pods also hold shares of it"
    assert check(view(ledger.list_nodes())) == [
        AccountingFinding("n", "a", FindingKind.SHARED_WHOLE_CARD, message, 16 * GIB, 0, 16 * GIB)
    ]


def test_whole_card_with_another_share_is_over_capacity_and_shared(ledger):
    hold(ledger, "p", "a", 16, whole=True)
    hold(ledger, "q", "a", 4)
    assert findings(ledger) == [("a", FindingKind.OVER_CAPACITY), ("a", FindingKind.SHARED_WHOLE_CARD)]


def test_containers_of_one_pod_on_its_whole_card_are_no_finding(ledger):
    containers = {"i": (Share("a", 16 * GIB, whole=True),), "c": (Share("a", 16 * GIB, whole=True),)}
    ledger.confirm(PodRef("d", "p", "p"), "n", Assignment(containers), [("i", Kind.INIT), ("c", Kind.APP)])
    assert findings(ledger) == []


def test_share_of_card_missing_from_inventory_is_found(ledger):
    hold(ledger, "p", "z", 4)
    message = "card z of n is held by pods, but the node's inventory does not list it"
    assert check(view(ledger.list_nodes()), min_free_bytes=GIB) == [
        AccountingFinding("n", "z", FindingKind.UNKNOWN_CARD, message, 0, 4 * GIB, -4 * GIB)
    ]


def test_pod_without_assignment_is_found_with_its_problem(ledger):
    ledger.confirm_unassigned(UnassignedPod(PodRef("d", "p", "p"), "n", build_request(4 * GIB), "it has none"))
    message = "pod d/p holds cards of n, but their IDs are unknown: it has none"
    assert check(view(ledger.list_nodes())) == [
        AccountingFinding("n", "", FindingKind.UNASSIGNED_POD, message, 0, 4 * GIB, 0)
    ]


def test_findings_are_sorted_by_node_and_inventory_order_of_cards(ledger):
    ledger.put_node("m", build_inventory("c", "b", memory=GIB, unit_bytes=GIB))
    found = check(view(ledger.list_nodes()), min_free_bytes=20 * GIB)
    assert [(each.node, each.card) for each in found] == [("m", "c"), ("m", "b"), ("n", "a")]


def test_unreadable_inventory_is_found():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", InventoryError("garbled"))
    message = "the cards of n are unknown: node's accelkit inventory is unknown: garbled"
    assert check(view(ledger.list_nodes())) == [
        AccountingFinding("n", "", FindingKind.UNKNOWN_INVENTORY, message, 0, 0, 0)
    ]


def test_node_without_inventory_is_a_finding_only_if_pods_hold_cards(ledger):
    ledger.put_node("n", None)
    assert findings(ledger) == []
    hold(ledger, "p", "a", 4)
    assert findings(ledger) == [("a", FindingKind.UNKNOWN_CARD)]
