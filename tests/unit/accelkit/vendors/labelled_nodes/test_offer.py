import msgspec
import pytest

from accelkit.errors import InventoryError
from accelkit.model.card import Card, Link
from accelkit.model.inventory import Inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.pod import Node
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.labelled_nodes.offer import NOTHING, add_offer, build_inventory, read_offer

DIALECTS = load_dialects(["native", "gas"])
I915, FOO = "gpu.intel.com/i915", "gpu.intel.com/foo"
LABELS = {"gpu.intel.com/gpu-numbers": "0.2.3"}


def offer(labels=None, inventory="", capacity=None, dialects=DIALECTS, **allocatable):
    resources = {f"gpu.intel.com/{name.replace('__', '.')}": amount for name, amount in allocatable.items()}
    metadata = {"name": "n", "labels": labels or {}, "annotations": {INVENTORY_ANNOTATION: inventory}}
    status = {"allocatable": {"cpu": "4", **resources}, "capacity": capacity or {}}
    return read_offer(msgspec.convert({"metadata": metadata, "status": status}, Node), dialects)


def test_each_card_has_its_part_of_what_the_node_has_rounded_down():
    found = build_inventory(
        offer(LABELS, i915="6", foo="11", little="2", memory__max="24Gi", millicores="3000", i915_monitoring="1"), 2**30
    )
    assert [(card.id, card.number, card.vendor) for card in found.cards] == [
        ("card0", 0, "intel"),
        ("card2", 2, "intel"),
        ("card3", 3, "intel"),
    ]
    for card in found.cards:
        # Of what is less than one for each no card has any.
        assert (card.amounts, card.capacity_bytes) == (((FOO, 3), (I915, 2)), 8 * 2**30)


def test_without_memory_in_its_status_a_nodes_memory_is_unknown():
    assert [card.memory_bytes for card in build_inventory(offer(LABELS, i915="3"), 1).cards] == [None] * 3


def test_a_quantity_that_cannot_be_read_is_nothing_to_give():
    assert build_inventory(offer(LABELS, i915="3", foo="many"), 1).cards[0].amounts == ((I915, 1),)


def test_labels_that_cannot_be_read_are_no_cards():
    with pytest.raises(InventoryError, match="gpu-numbers is"):
        build_inventory(offer({"gpu.intel.com/gpu-numbers": "0.x"}, i915="1"), 1)


def test_cards_of_an_inventory_get_their_part_by_the_labels_or_their_own_count():
    inventory = Inventory(1, (Card("a", "v", "m", 16), Card("b", "v", "m", 32)))
    assert [card.amounts for card in add_offer(inventory, offer(i915="5")).cards] == [((I915, 2),)] * 2
    assert [card.amounts for card in add_offer(inventory, offer(LABELS, i915="5")).cards] == [((I915, 1),)] * 2
    assert add_offer(inventory, NOTHING) == inventory


def test_how_often_cards_of_our_agent_can_be_given_is_not_less_for_one_that_is_ill():
    inventory = Inventory(1, (Card("a", "v", "m", 16), Card("b", "v", "m", 32)))
    for told, parts in (("{}", ((FOO, 2), (I915, 1))), ("", ((FOO, 2),))):
        seen = offer(inventory=told, capacity={I915: "2", FOO: "8"}, i915="1", foo="4")
        assert add_offer(inventory, seen).cards[0].amounts == parts


def test_where_nobody_speaks_the_dialect_a_node_says_nothing():
    assert offer(LABELS, i915="6", dialects=load_dialects(["native", "aliyun"])) is NOTHING


def test_tiles_numa_nodes_links_and_preference_of_single_cards():
    labels = {
        **LABELS,
        "gpu.intel.com/numa-gpu-map": "0-0.2_1-3",
        "gpu.intel.com/xe-links": "1.0-2.0",
        "p/gas-tile-disable-card2_gt1": "",
        "p/gas-tile-deschedule-card2_gt7": "",
        "p/gas-prefer-gpu": "card3",
    }
    cards = build_inventory(offer(labels, i915="3", tiles="6"), 1).cards
    assert [dict(card.amounts)["gpu.intel.com/tiles"] for card in cards] == [2, 1, 2]
    assert [card.numa for card in cards] == [0, 0, 1]
    assert [card.preferred for card in cards] == [False, False, True]
    assert [[(link.to, link.kind) for link in card.links] for card in cards] == [
        [],
        [("card3", "xe-link")],
        [("card2", "xe-link")],
    ]


def test_what_our_agent_knows_of_a_card_stays():
    linked = Card("a", "v", "m", 16, numa=7, links=(Link("b", "NVLink"),), minor=2)
    labels = {**LABELS, "gpu.intel.com/numa-gpu-map": "0-2", "gpu.intel.com/xe-links": "1.0-2.0"}
    found = add_offer(Inventory(1, (linked, Card("b", "v", "m", 16, minor=3))), offer(labels, i915="3"))
    assert (found.cards[0].numa, found.cards[0].links) == (7, linked.links)
    assert found.cards[1].links == (Link("a", "xe-link"),)
