"""Nodes as the search for changes sees them, and as they would be without some pods."""

import pytest
from support.pods import make_ref
from support.requests import build_inventory, build_request

from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import describe_likeness, take_situation
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.request import Kind
from accelkit.placement.policies import Policy


def put(ledger, node, *pods):
    """A node of two cards, with pods that hold so much, or a whole card for 0."""
    ledger.put_node(node, Inventory(1, tuple(Card(f"{node}-{card}", "v", "m", 16, index=card) for card in range(2))))
    for name, memory in pods:
        ledger.reserve(make_ref(name), node, build_request(memory), Policy.BINPACK)
    return ledger.find_node(node)


@pytest.fixture
def ledger():
    return Ledger(unit_bytes=1)


def free(states):
    return [(state.free_bytes, state.empty) for state in states]


def test_copy_without_excludes_holdings_of_given_pods(ledger):
    entry = put(ledger, "n", ("x", 10), ("y", 4), ("z", 0))
    assert free(entry.list_card_states()) == [(2, False), (0, False)]
    assert free(entry.copy_without({"uid-x"}).list_card_states()) == [(12, False), (0, False)]
    assert free(entry.copy_without({"uid-y", "uid-z", "nobody"}).list_card_states()) == [(6, False), (16, True)]
    assert free(entry.list_card_states()) == [(2, False), (0, False)]


def test_node_copy_and_situation_do_not_follow_later_changes(ledger):
    entry = put(ledger, "n", ("x", 10))
    copy, situation = entry.copy_without(()), take_situation(entry, build_request(8))
    ledger.reserve(make_ref("y"), "n", build_request(6), Policy.BINPACK)
    ledger.release("uid-x")
    assert free(copy.list_card_states()) == free(situation.states) == [(6, False), (16, True)]
    assert free(situation.leave_out({"uid-x"})) == [(16, True), (16, True)]


def test_holders_of_equivalent_nodes_have_same_order(ledger):
    one = put(ledger, "n", ("b", 4), ("a", 10), ("w", 0))
    other = put(ledger, "m", ("q", 4), ("r", 10), ("v", 0))
    assert describe_likeness(one, build_request(8)) == describe_likeness(other, build_request(8))
    pairs = zip(
        take_situation(one, build_request(8)).holders, take_situation(other, build_request(8)).holders, strict=True
    )
    assert [(each.pod.name, twin.pod.name) for each, twin in pairs] == [("b", "q"), ("a", "r"), ("w", "v")]


@pytest.mark.parametrize("pods", [[("q", 4), ("r", 9), ("v", 0)], [("q", 14), ("v", 0)], [("q", 4), ("r", 10)]])
def test_nodes_with_different_holdings_are_not_equivalent(ledger, pods):
    one, other = put(ledger, "n", ("b", 4), ("a", 10), ("w", 0)), put(ledger, "m", *pods)
    assert describe_likeness(one, build_request(8)) != describe_likeness(other, build_request(8))


def test_node_with_unassigned_pod_is_not_equivalent_to_any_node(ledger):
    one, other = put(ledger, "n"), put(ledger, "m")
    for name in ("n", "m"):
        ledger.confirm_unassigned(UnassignedPod(make_ref(name), name, build_request(4), "it has none"))
    assert describe_likeness(one, build_request(8)) != describe_likeness(other, build_request(8))
    (holder,) = take_situation(one, build_request(8)).holders
    assert (holder.pod, holder.charges) == (make_ref("n"), None)
    assert free(take_situation(one, build_request(8)).leave_out({"uid-n"})) == [(16, True), (16, True)]


def test_share_of_missing_card_is_omitted_from_holders(ledger):
    entry = put(ledger, "n")
    ledger.confirm(make_ref("x"), "n", Assignment({"c": (Share("gone", 8),)}), [("c", Kind.APP)])
    assert take_situation(entry, build_request(8)).holders == ()


def test_branch_contains_nodes_of_removed_pods_and_does_not_change_ledger(ledger):
    put(ledger, "n", ("x", 10), ("y", 4))
    put(ledger, "m", ("z", 16))
    lost = UnassignedPod(make_ref("lost"), "m", build_request(4), "it has none")
    ledger.confirm_unassigned(lost)
    before = ledger.table.tick
    branch = ledger.branch({"uid-x": "n"})
    assert (branch.find_node("m"), branch.unit_bytes) == (None, 1)
    assert free(branch.find_node("n").list_card_states()) == [(12, False), (16, True)]
    assert [held.pod.name for held in branch.find_node("n").holdings.values()] == ["y"]
    assert branch.table.used_fraction[branch.find_node("n").row] == 4 / 32
    both = ledger.branch({"uid-z": "m", "uid-x": "n"})
    assert list(both.find_node("m").unassigned) == ["uid-lost"]
    assert not ledger.branch({"uid-lost": "m"}).find_node("m").unassigned
    assert ledger.table.tick == before
    assert len(ledger) == 4


def test_branch_keeps_problem_of_node(ledger):
    ledger.put_node("n", build_inventory("a", unit_bytes=2))
    ledger.confirm(make_ref("x"), "n", Assignment({"c": (Share("a", 8),)}), [("c", Kind.APP)])
    assert ledger.branch({"uid-x": "n"}).find_node("n").problem == ledger.find_node("n").problem


def test_branch_of_unknown_nodes_is_empty(ledger):
    assert list(ledger.branch({"uid-x": "nowhere"}).list_nodes()) == []
