"""How the cards of a node are connected, from the inventory's matrix and from what the cards say of themselves."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import QUADS, connect, draw_rows, make_cards

from accelkit.model.card import Card
from accelkit.placement.topology.links import find_links, restrict

ORDER = [
    ("D", 3, "NVLink"),
    ("D", 1, "XGMI"),
    ("W", 1, "XGMI hive"),
    ("D", 1, "Xe-link"),
    ("S", 0, ""),
    ("M", 0, ""),
    ("H", 0, ""),
    ("N", 0, ""),
    ("?", 0, ""),
    ("C", 0, ""),
]


def pair(letter, count, kind):
    found = connect(("X" + letter, letter + "X"), [(0, 1, kind, count)] if count else [])
    return found.weights[0][1], found.names[0][1]


def test_connection_kinds_have_strictly_decreasing_weights():
    weights = [pair(*each)[0] for each in ORDER]
    assert weights == sorted(set(weights), reverse=True)
    assert weights[-1] == 0


def test_nvswitch_nvlink_and_xgmi_have_equal_weight_per_link():
    assert [pair("W", 1, "NVSwitch")[0], pair("D", 1, "NVLink")[0], pair("D", 1, "XGMI")[0]] == [8, 8, 8]
    assert [pair("D", count, "NVLink")[0] for count in (2, 4, 18)] == [16, 32, 144]


@pytest.mark.parametrize(("count", "weight"), [(0, 8), (-5, 8), (10**30, 8 * 36)])
def test_implausible_link_count_is_clamped(count, weight):
    cards = make_cards(2, links=[(0, 1, "NVLink", count)])
    assert find_links(cards, ("XD", "DX")).weights[0][1] == weight


def test_each_connection_kind_has_expected_name():
    assert [pair(*each)[1] for each in ORDER] == [
        *("3 NVLink", "XGMI", "XGMI hive", "Xe-link", "PCI switch", "PCI switches", "PCI root", "NUMA node"),
        *("unknown", "other NUMA node"),
    ]
    assert pair("D", 1, "x" * 1000)[1] == "x" * 39 + "…"


def test_set_description_counts_pairs_strongest_first():
    assert connect(QUADS).describe([7, 0, 1, 2]) == {"link": 3, "other NUMA node": 3}
    assert connect(QUADS).describe([3]) == {}


@pytest.mark.parametrize("rows", [(), ("X",), ("XS", "SX", "SS"), ("XSS", "SXS", "SS")])
def test_connections_are_derived_from_cards_without_valid_matrix(rows):
    cards = [
        Card("a", "v", "m", 1, numa=0, pci_root="pci0000:00"),
        Card("b", "v", "m", 1, numa=0, pci_root="pci0000:00"),
        Card("c", "v", "m", 1, numa=0, pci_root="pci0000:40"),
        Card("d", "v", "m", 1, numa=1),
        Card("e", "v", "m", 1),
        *make_cards(6, links=[(5, 0, "NVLink", 1)])[5:],
    ]
    names = find_links(cards, rows).names
    assert names[0] == ("", "PCI root", "NUMA node", "other NUMA node", "unknown", "NVLink")


def test_identical_machines_share_one_connections_object():
    def machine(prefix):
        cards = make_cards(8, links=[(a, b, "NVLink", 1) for a in range(8) for b in range(8) if a // 4 == b // 4 != a])
        return [
            msgspec.structs.replace(
                card,
                id=prefix + card.id,
                links=tuple(msgspec.structs.replace(link, to=prefix + link.to) for link in card.links),
            )
            for card in cards
        ]

    assert find_links(machine("x"), QUADS) is find_links(machine("y"), QUADS)
    assert find_links(machine("x")) is find_links(machine("y"))


def test_matrix_and_card_links_produce_same_connections():
    links = [(a, b, "NVLink", 1) for a in range(8) for b in range(8) if a // 4 == b // 4 and a != b]
    assert connect(QUADS, links) is connect(draw_rows(8, lambda _a, _b: "C"), links)


def test_connections_of_more_than_128_cards_are_not_computed():
    assert find_links([Card(f"{number}", "v", "m", 1) for number in range(129)]) is None


def test_restrict_keeps_connections_of_remaining_cards():
    part = restrict(connect(QUADS), (1, 2, 5))
    assert (part.weights, part.names[0]) == (((0, 8, 0), (8, 0, 0), (0, 0, 0)), ("", "link", "other NUMA node"))


@given(st.lists(st.text("DWSMHNCX?z", min_size=4, max_size=4), min_size=4, max_size=4), st.data())
def test_connections_are_symmetric_for_any_input(rows, data):
    ends = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["NVLink", "odd"]), st.integers(-1, 40))
    links = [each for each in data.draw(st.lists(ends, max_size=5)) if each[0] != each[1]]
    found = connect(rows, links)
    for a in range(4):
        assert (found.weights[a][a], found.names[a][a]) == (0, "")
        for b in range(4):
            assert (found.weights[a][b], found.names[a][b]) == (found.weights[b][a], found.names[b][a])
            assert 0 <= found.weights[a][b] <= 288
