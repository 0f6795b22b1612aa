"""Which node is the best for cards that should be connected well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import FLAT, PAIRS, QUADS, SWITCHED, connect, draw_rows, draw_tree

from accelkit.placement.policies import MAX_SCORE
from accelkit.placement.topology.scores import rate_set, score_rating
from accelkit.placement.topology.set_request import SetRequest

FOUR = draw_rows(4, lambda _a, _b: "D")
TWO_BY_FOUR = draw_tree([2, 2], [4])


def score_set(links, count, free, empty, used_fraction=0.0):
    return score_rating(rate_set(links, SetRequest(count, free, empty)), count, used_fraction)


def score(rows, count, free=None, used_fraction=0.0):
    cards = (1 << len(rows)) - 1 if free is None else sum(1 << card for card in free)
    return score_set(connect(rows), count, cards, cards, used_fraction)


def test_score_prefers_complete_group_then_nodes_with_unbroken_groups():
    scores = [
        score(FOUR, 4),
        score(SWITCHED, 4, range(4)),
        score(QUADS, 4),
        score(SWITCHED, 4, range(1, 8)),
        score(SWITCHED, 4),
        score(PAIRS, 4),
    ]
    assert scores[0] == scores[1] == MAX_SCORE
    assert scores[1:] == sorted(set(scores[1:]), reverse=True)


def test_link_quality_outweighs_broken_groups_in_score():
    worse = ["S", "H", "N", "?", "C"]
    scores = [score(draw_rows(2, lambda _a, _b, letter=letter: letter), 2) for letter in worse]
    assert scores == sorted(scores, reverse=True)
    assert score(SWITCHED, 2) >= scores[0] > scores[1]


@pytest.mark.parametrize("rows", [SWITCHED, FLAT, PAIRS, QUADS])
def test_partly_used_node_scores_higher_than_empty_node(rows):
    fresh, begun, last = score(rows, 1), score(rows, 1, range(1, 8), 1 / 8), score(rows, 1, [7], 7 / 8)
    assert fresh < begun < last
    assert score(rows, 2) <= score(rows, 2, range(2, 8)) <= score(rows, 2, [6, 7])


def test_single_card_scores_higher_on_node_with_unpaired_free_card():
    assert score(PAIRS, 1, range(1, 8), 1 / 8) > score(PAIRS, 1, range(2, 8), 1 / 8)


def test_cards_already_shared_do_not_count_as_broken_groups():
    links = connect(QUADS)
    assert score_set(links, 2, 0b11, 0b11111100) > score_set(links, 2, 0b11, 0b11111111)


@given(
    st.sampled_from([QUADS, PAIRS, SWITCHED, FLAT, FOUR, TWO_BY_FOUR]),
    st.integers(1, 8),
    st.integers(0, 255),
    st.integers(0, 255),
    st.floats(0, 1.5),
)
def test_score_is_within_scheduler_range_and_zero_if_nothing_fits(rows, count, free, empty, used_fraction):
    cards = (1 << len(rows)) - 1
    found = score_set(connect(rows), count, free & cards, empty & cards, used_fraction)
    assert 0 <= found <= MAX_SCORE
    if (free & cards).bit_count() < count:
        assert found == 0
