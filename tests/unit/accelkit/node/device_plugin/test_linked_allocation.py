"""Whole cards that the kubelet is offered for a container without an assignment: those with the best connections."""

import pytest

from accelkit.model.card import Card
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.node_cards import NodeCards

ROWS = tuple("".join("X" if a == b else "S" if a // 2 == b // 2 else "C" for b in range(6)) for a in range(6))
# A kubelet does not sort the cards.
NODE = NodeCards({name: Card(name, "v", "m", 16) for name in "fedcba"}, 1, topology=ROWS)


def offer(size, available="abcdef", taken="", avoid="", node=NODE):
    allocations = PreferredAllocation(whole=True, ids=NODE.ids)
    return "".join(
        allocations.prefer([], {}, available=list(available), taken=list(taken), size=size, avoid=avoid, node=node)
    )


@pytest.mark.parametrize(
    ("size", "available", "chosen"), [(2, "abcdef", "fe"), (2, "abcde", "dc"), (1, "abcde", "e"), (3, "bcdf", "fdc")]
)
def test_best_connected_cards_are_offered_and_larger_groups_left_free(size, available, chosen):
    assert set(offer(size, available)) == set(chosen)


def test_cards_connected_to_required_cards_are_offered():
    assert offer(2, taken="c") == "cd"
    assert offer(2, taken="cb") == "cb"


def test_cards_with_shared_memory_are_not_offered():
    assert offer(2, avoid="fd") == "ba"


def test_no_cards_are_offered_if_too_few_are_available():
    assert offer(3, "ab") == ""


@pytest.mark.parametrize("node", [None, NodeCards({"a": NODE.cards["a"]}, 1)])
def test_first_cards_are_offered_if_connections_are_unknown(node):
    assert offer(3, node=node) == "abc"
