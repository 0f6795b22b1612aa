"""Which set of cards is connected best: the search over all sets against a plain one, and the one for many cards."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import SWITCHED, connect, draw_rows

from accelkit.placement.topology.exchange import seek_set
from accelkit.placement.topology.links import CardLinks
from accelkit.placement.topology.ranking import count_steps, rank_sets
from accelkit.placement.topology.set_request import SetRequest, list_cards

LINKS = st.sampled_from([0, 0, 1, 3, 5, 8, 16])


def mask(cards):
    return sum(1 << card for card in cards)


@st.composite
def machines(draw, most=7):
    cards = draw(st.integers(1, most))
    weights = [[0] * cards for _ in range(cards)]
    for a, b in combinations(range(cards), 2):
        weights[a][b] = weights[b][a] = draw(LINKS)
    names = tuple(("",) * cards for _ in range(cards))
    return CardLinks(tuple(map(tuple, weights)), names)


@st.composite
def desired_sets(draw, cards):
    together = ()
    if draw(st.booleans()):
        apart = [pair for pair in combinations(range(cards), 2) if draw(st.integers(0, 4)) == 0]
        all_cards = (1 << cards) - 1
        together = tuple(
            all_cards & ~mask(b for a, b in [*apart, *((b, a) for a, b in apart)] if a == c) for c in range(cards)
        )
    free = draw(st.integers(0, (1 << cards) - 1))
    empty = draw(st.integers(0, (1 << cards) - 1))
    required = free & draw(st.integers(0, (1 << cards) - 1)) & draw(st.integers(0, (1 << cards) - 1))
    return SetRequest(draw(st.integers(1, cards)), free, empty, required, together)


def measure(links, chosen, empty):
    """The weakest pair, the sum of all, and the sum of all pairs of the cards that stay empty."""
    pairs = [links.weights[a][b] for a, b in combinations(chosen, 2)]
    rest = [card for card in list_cards(empty) if card not in chosen]
    return min(pairs, default=0), sum(pairs), sum(links.weights[a][b] for a, b in combinations(rest, 2))


def is_possible(chosen, set_request):
    apart = (set_request.together and not set_request.together[a] >> b & 1 for a, b in combinations(chosen, 2))
    return set(chosen) >= set(list_cards(set_request.required)) and not any(apart)


def list_plainly(links, set_request, ranks=()):
    """All possible sets, one after the other, in the order that they should have."""
    found = [
        each for each in combinations(list_cards(set_request.free), set_request.count) if is_possible(each, set_request)
    ]
    left = {each: sum(ranks[card] for card in each) if ranks else 0 for each in found}
    return sorted(
        found, key=lambda each: (*(-value for value in measure(links, each, set_request.empty)), left[each], each)
    )


@given(st.data(), machines())
def test_rank_sets_order_equals_exhaustive_comparison(data, links):
    set_request = data.draw(desired_sets(len(links.weights)))
    ranks = data.draw(
        st.just(()) | st.lists(st.integers(0, 3), min_size=len(links.weights), max_size=len(links.weights))
    )
    assert list(rank_sets(links, set_request, ranks)) == list_plainly(links, set_request, ranks)


@given(st.data(), machines(most=10))
def test_seek_set_result_cannot_be_improved_by_exchanging_one_card(data, links):
    set_request = data.draw(desired_sets(len(links.weights)))
    found = seek_set(links, set_request)
    plainly = list_plainly(links, set_request)
    if found is None:
        # It may miss the few sets that are possible, and then says so.
        assert not plainly or set_request.together or set_request.required.bit_count() > set_request.count
        return
    assert found in plainly
    neighbours = [each for each in plainly if len(set(each) & set(found)) == len(found) - 1]
    best = max((measure(links, each, set_request.empty) for each in neighbours), default=(0, 0, 0))
    assert best <= measure(links, found, set_request.empty)


@pytest.mark.parametrize(("count", "most"), [(2, 8), (4, 8), (8, 8), (12, 3)])
def test_linked_cards_are_found_among_many_cards(count, most):
    links = connect(draw_rows(24, lambda a, b: "D" if a // 8 == b // 8 else "H"))
    # Each first card of eight is held, and the first eight are short of three.
    free = mask(card for card in range(24) if card % 8 and card not in {1, 2})
    chosen = next(rank_sets(links, SetRequest(count, free, free)))
    assert len(chosen) == count
    weakest, _, _ = measure(links, chosen, free)
    assert weakest >= (most if count <= 7 else 3)


def test_all_sets_of_few_free_cards_are_compared():
    links = connect(draw_rows(26, lambda a, b: "D" if abs(a - b) == 13 else "C"))
    free = mask((3, 9, 15, 22, 24))
    assert next(rank_sets(links, SetRequest(2, free, free))) == (9, 22)
    assert len(list(rank_sets(links, SetRequest(2, free, free), range(26)))) == 10


def test_two_links_rank_higher_than_one():
    links = [(a, b, "NVLink", 2 if b - a == 1 else 1) for a in range(4) for b in range(a + 1, 4)]
    found = connect(draw_rows(4, lambda _a, _b: "D"), links)
    assert next(rank_sets(found, SetRequest(2, 0b1101, 0b1101))) == (2, 3)
    assert found.describe((2, 3)) == {"2 NVLink": 1}


def test_smaller_cards_are_preferred_among_equal_sets():
    assert next(rank_sets(connect(SWITCHED), SetRequest(2, 255, 255), [9, 9, 9, 5, 9, 9, 5, 9])) == (3, 6)
    # The sum of what two inventories may say at most is no number of 64 bits.
    assert next(
        rank_sets(connect(SWITCHED), SetRequest(2, 15, 15), [2**63 - 1, 2**63 - 1, 2**62, 2**62, *[0] * 4])
    ) == (
        2,
        3,
    )


def test_search_steps_grow_with_number_of_sets_and_ignore_cached_results():
    links = connect(SWITCHED)
    set_request = SetRequest(4, 255, 255)
    first = count_steps(links, set_request)
    next(rank_sets(links, set_request))
    assert count_steps(links, set_request) == first == 4
    large = connect(draw_rows(16, lambda _a, _b: "W"))
    assert count_steps(large, SetRequest(8, 2**16 - 1, 2**16 - 1)) == 8 + 12870 // 256
    huge = connect(draw_rows(26, lambda _a, _b: "W"))
    assert count_steps(huge, SetRequest(8, 2**26 - 1, 2**26 - 1)) == 8 + 26 * 26 * 8 // 256
