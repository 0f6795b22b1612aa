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


def test_each_card_gets_equal_share_of_node_amounts_rounded_down():
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


def test_node_without_memory_in_status_has_cards_of_unknown_memory():
    assert [card.memory_bytes for card in build_inventory(offer(LABELS, i915="3"), 1).cards] == [None] * 3


def test_unreadable_quantity_of_node_is_ignored():
    assert build_inventory(offer(LABELS, i915="3", foo="many"), 1).cards[0].amounts == ((I915, 1),)


def test_unreadable_card_label_raises_inventory_error():
    with pytest.raises(InventoryError, match="gpu-numbers is"):
        build_inventory(offer({"gpu.intel.com/gpu-numbers": "0.x"}, i915="1"), 1)


def test_add_offer_divides_amounts_by_labels_or_inventory_cards():
    inventory = Inventory(1, (Card("a", "v", "m", 16), Card("b", "v", "m", 32)))
    assert [card.amounts for card in add_offer(inventory, offer(i915="5")).cards] == [((I915, 2),)] * 2
    assert [card.amounts for card in add_offer(inventory, offer(LABELS, i915="5")).cards] == [((I915, 1),)] * 2
    assert add_offer(inventory, NOTHING) == inventory


def test_card_counts_are_read_from_capacity_on_nodes_with_inventory():
    inventory = Inventory(1, (Card("a", "v", "m", 16), Card("b", "v", "m", 32)))
    for told, parts in (("{}", ((FOO, 2), (I915, 1))), ("", ((FOO, 2),))):
        seen = offer(inventory=told, capacity={I915: "2", FOO: "8"}, i915="1", foo="4")
        assert add_offer(inventory, seen).cards[0].amounts == parts


def test_node_offer_is_empty_without_label_dialect():
    assert offer(LABELS, i915="6", dialects=load_dialects(["native", "aliyun"])) is NOTHING


def test_labels_set_tiles_numa_nodes_links_and_preference_of_cards():
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


def test_add_offer_preserves_numa_node_and_links_of_inventory():
    linked = Card("a", "v", "m", 16, numa=7, links=(Link("b", "NVLink"),), minor=2)
    labels = {**LABELS, "gpu.intel.com/numa-gpu-map": "0-2", "gpu.intel.com/xe-links": "1.0-2.0"}
    found = add_offer(Inventory(1, (linked, Card("b", "v", "m", 16, minor=3))), offer(labels, i915="3"))
    assert (found.cards[0].numa, found.cards[0].links) == (7, linked.links)
    assert found.cards[1].links == (Link("a", "xe-link"),)
