import pytest

from accelkit.errors import InventoryError
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.labelled_nodes.labels import (
    find_preferred_card,
    join_label,
    list_disabled_cards,
    read_card_numbers,
    read_links,
    read_numa_nodes,
    read_tiles_out,
)

DIALECTS = load_dialects(["native", "gas"])
KEYS = DIALECTS[1].card_labels
NUMBERS, NAMES, GROUPS = "gpu.intel.com/gpu-numbers", "gpu.intel.com/cards", "gpu.intel.com/pci-groups"
POLICY = "telemetry.aware.scheduling.p"


def test_join_label_appends_values_of_continuation_keys():
    labels = {"k": "0.1", "k2": "Z.2", "k3": "Z.3.1", "k5": "Z0", "q": "9"}
    assert join_label(labels, "k") == "0.1.2.3.1"
    assert join_label(labels, "absent") == ""


def test_join_label_returns_empty_text_for_invalid_continuation():
    assert join_label({"k": "0.1", "k2": ".2"}, "k") == ""


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [
        ({NUMBERS: "0.1.2"}, (0, 1, 2)),
        ({NUMBERS: "3"}, (3,)),
        ({NUMBERS: "0.1", f"{NUMBERS}2": "Z.2.10"}, (0, 1, 2, 10)),
        ({NAMES: "card0.card1"}, (0, 1)),
        ({NAMES: "card0", NUMBERS: "4.5"}, (4, 5)),
        ({}, ()),
    ],
)
def test_card_numbers_are_read_from_numbers_or_names_label(labels, numbers):
    assert read_card_numbers(labels, KEYS) == numbers


@pytest.mark.parametrize("labels", [{NUMBERS: "0.0"}, {NUMBERS: "0.x"}, {NUMBERS: "0..1"}, {NAMES: "0.1"}])
def test_invalid_card_label_is_rejected_with_expected_format(labels):
    with pytest.raises(InventoryError, match="write it as "):
        read_card_numbers(labels, KEYS)


def test_more_than_128_cards_in_label_are_rejected():
    with pytest.raises(InventoryError):
        read_card_numbers({NUMBERS: ".".join(map(str, range(129)))}, KEYS)


def test_disable_label_disables_card_or_its_pci_group():
    groups = {GROUPS: "0.1_2.3", f"{GROUPS}2": "Z_4.5"}
    assert list_disabled_cards({f"{POLICY}/gas-disable-card10": "true"}, DIALECTS) == {"card10"}
    for number, group in ((1, {"card0", "card1"}), (4, {"card4", "card5"}), (7, {"card7"})):
        labels = {**groups, f"{POLICY}/gas-disable-card{number}": "PCI_GROUP"}
        assert list_disabled_cards(labels, DIALECTS) == group
    assert list_disabled_cards(groups, DIALECTS) == frozenset()
    assert list_disabled_cards({f"{POLICY}/gas-disable-card1": "PCI_GROUP"}, load_dialects(["native"])) == frozenset()


def test_read_numa_nodes_ignores_invalid_parts_of_label():
    labels = {"k": "0-0.1_1-2.3", "k2": "Z_x-4_2-y.5_7"}
    assert read_numa_nodes(labels, "k") == ((0, 0), (1, 0), (2, 1), (3, 1), (5, 2))
    assert read_numa_nodes({}, "k") == ()


def test_read_links_maps_positions_to_card_numbers():
    labels = {"k": "0.0-1.0_0.1-1.1_2.0-3.0_3.0-3.1_x-1.0_1"}
    assert read_links(labels, "k", (10, 4, 2)) == ((2, 4),)
    assert read_links(labels, "k", (0, 1, 2, 3)) == ((0, 1), (2, 3))
    assert read_links({}, "k", (0, 1)) == ()


def test_tiles_are_disabled_by_disable_or_deschedule_label():
    labels = {
        f"{POLICY}/gas-tile-disable-card0_gt1": "true",
        f"{POLICY}/gas-tile-deschedule-card10_gt0": "true",
        f"{POLICY}/gas-tile-preferred-card1": "gt0",
        f"{POLICY}/gas-tile-disable-card1": "",
        f"{POLICY}/gas-tile-disable-card1_2": "",
    }
    assert read_tiles_out(labels, KEYS.tiles_out) == ((0, 1), (10, 0))


def test_find_preferred_card_returns_label_value_of_dialect():
    assert find_preferred_card({f"{POLICY}/gas-prefer-gpu": "card2", "x": "card1"}, DIALECTS[1]) == "card2"
    assert find_preferred_card({f"{POLICY}/gas-prefer-gpu": "card2"}, DIALECTS[0]) == ""
