from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searched_nodes import node, wants

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.placement.budget import Budget
from accelkit.placement.changes.victims import Candidate, find_victims, rank_victims
from accelkit.placement.fit import place
from accelkit.placement.policies import Policy

CARDS = (Card("a", "v", "m", 8), Card("b", "v", "m", 8))


def ask(held, request, priorities, *, gone=(), cards=CARDS, steps=100_000):
    """The names of those who have to leave; None where nobody's leaving would help."""
    situation = node(cards, held)
    candidates = [
        Candidate(holder, priorities[holder.pod.name]) for holder in situation.holders if holder.pod.name in priorities
    ]
    uids = {f"uid-{name}" for name in gone}
    found = find_victims(situation, request, Policy.BINPACK, candidates, Budget(steps), gone=uids)
    return None if found is None else [each.holder.pod.name for each in found]


def test_pod_of_lowest_priority_is_selected_as_victim():
    held = {"p": {"a": 5}, "q": {"b": 5}}
    assert ask(held, wants(5), {"p": 2, "q": 1}) == ["q"]
    assert ask(held, wants(5), {"p": 2}) == ["p"]
    assert ask(held, wants(5), {}) is None
    assert ask(held, wants(3), {"p": 2, "q": 1}) == []


def test_victims_share_one_card_regardless_of_priority():
    held = {"p": {"a": 4}, "q": {"a": 4}, "r": {"b": 4}, "s": {"b": 4}}
    # The two of the lowest priority are on different cards.
    assert ask(held, wants(8), {"p": 1, "q": 3, "r": 2, "s": 4}) == ["q", "p"]
    assert ask(held, wants(8), {"p": 1, "q": 5, "r": 2, "s": 4}) == ["s", "r"]


def test_fewer_victims_are_selected_at_equal_priority():
    held = {"p": {"a": 2}, "q": {"a": 6}, "r": {"b": 4}, "s": {"b": 4}}
    assert ask(held, wants(6), dict.fromkeys("pqrs", 1)) == ["q"]
    assert ask(held, wants(8), dict.fromkeys("qrs", 1)) == ["r", "s"]


def test_terminating_pod_is_not_selected_as_victim():
    held = {"p": {"a": 5}, "q": {"b": 5}}
    assert ask(held, wants(5), {"q": 1}, gone="p") == []
    assert ask({"p": {"a": 4}, "q": {"a": 4}}, wants(8), {"q": 1}, gone="p", cards=CARDS[:1]) == ["q"]


def test_victims_free_whole_cards_and_several_cards():
    held = {"p": {"a": None}, "q": {"b": 1}, "r": {"b": 1}}
    assert ask(held, wants(0, cards=2), {"p": 1, "q": 1, "r": 1}) == ["p", "q", "r"]
    assert ask({"p": {"a": 8, "b": 8}}, wants(8, cards=2), {"p": 1}) == ["p"]
    assert ask(held, wants(0, cards=3), {"p": 1, "q": 1, "r": 1}) is None


def test_no_victims_are_selected_when_budget_is_spent():
    assert ask({"p": {"a": 5}, "q": {"b": 5}}, wants(5), {"p": 2, "q": 1}, steps=1) is None


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.integers(0, 3)), max_size=7),
    st.integers(1, 9),
)
def test_every_victim_is_needed_and_no_set_ranks_lower_for_one_card(pods, memory):
    held, priorities, free = {}, {}, {"a": 8, "b": 8}
    for number, (card, amount, priority) in enumerate(pods):
        if amount <= free[card]:
            free[card] -= amount
            held[f"p{number}"] = {card: amount}
            priorities[f"p{number}"] = priority
    situation, request = node(CARDS, held), wants(memory)

    def fits(names):
        states = situation.leave_out({f"uid-{name}" for name in names})
        return isinstance(place(states, request, Policy.BINPACK), Assignment)

    found = ask(held, request, priorities)
    if found is None:
        assert not fits(held)
        return
    assert fits(found)
    assert not any(fits(set(found) - {name}) for name in found)
    holders = {each.pod.name: each for each in situation.holders}

    def rank(names):
        return rank_victims([Candidate(holders[each], priorities[each]) for each in names])[0]

    sets = [some for count in range(len(held) + 1) for some in combinations(held, count) if fits(some)]
    assert rank(found) == min(map(rank, sets))


@pytest.mark.parametrize(("one", "other"), [([5], [4, 4]), ([3, 3], [4]), ([1, 2], [1, 3])])
def test_rank_prefers_lower_highest_priority_then_fewer_victims(one, other):
    situation = node(CARDS, {f"p{number}": {"a": 1} for number in range(4)})
    of = [[Candidate(situation.holders[at], value) for at, value in enumerate(each)] for each in (one, other)]
    better = other if max(other) < max(one) else one
    assert min(of, key=rank_victims) == of[[one, other].index(better)]
