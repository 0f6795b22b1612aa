"""`place` for cards that should be connected well, or must be near each other in groups."""

import pytest
from machines import FLAT, PAIRS, QUADS, SWITCHED, connect, draw_rows, draw_tree, hold, make_cards

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Health
from accelkit.model.request import CardGroup, ContainerRequest, Kind, Near, PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy

TOPOLOGY = Policy.TOPOLOGY
TWO = CardGroup(Near.SWITCH, (0, 0))


def wants(cards=1, memory=0, *, name="c", kind=Kind.APP, **more):
    return ContainerRequest(name, kind, cards, memory, whole=not memory, **more)


def put(states, rows, *containers, policy=TOPOLOGY, **more):
    placed = place(states, PodRequest(containers), policy, links=connect(rows), **more)
    if isinstance(placed, Misfit):
        return placed.reason
    return {name: "".join(sorted(share.card for share in shares)) for name, shares in placed.containers.items()}


@pytest.mark.parametrize(
    ("rows", "used", "cards", "chosen"),
    [
        (QUADS, "", 4, "abcd"),
        (QUADS, "a", 4, "efgh"),
        (QUADS, "a", 2, "bc"),
        (QUADS, "ab", 4, "efgh"),
        (PAIRS, "a", 2, "cd"),
        (PAIRS, "a", 1, "b"),
        (PAIRS, "ace", 1, "b"),
        (FLAT, "a", 2, "bc"),
    ],
)
def test_linked_cards_are_selected(rows, used, cards, chosen):
    assert put(hold(rows, used), rows, wants(cards)) == {"c": chosen}


def test_policy_of_container_overrides_policy_of_cluster():
    assert put(hold(QUADS, "a"), QUADS, wants(4, policy="topology"), policy=Policy.BINPACK) == {"c": "efgh"}
    assert put(hold(QUADS, "a"), QUADS, wants(4, policy="binpack")) == {"c": "bcde"}


def test_containers_of_pod_leave_linked_cards_for_each_other():
    one, four = wants(1, name="one"), wants(4, name="four")
    assert put(hold(QUADS, "a"), QUADS, one, four) == {"one": "b", "four": "efgh"}


def test_app_container_keeps_init_container_card_and_adds_linked_cards():
    first = wants(1, name="i", kind=Kind.INIT, allowed=frozenset({5}))
    states = [
        CardState(Card(state.card.id, "v", "m", 16, index=place), state.free_bytes, 1000, empty=True)
        for place, state in enumerate(hold(QUADS))
    ]
    assert put(states, QUADS, first, wants(3)) == {"i": "f", "c": "efg"}


def test_memory_share_prefers_shared_card_over_empty_card():
    states = hold(QUADS)
    states[6] = CardState(states[6].card, 8, 1000, empty=False)
    assert put(states, QUADS, wants(1, 4)) == {"c": "g"}
    assert put(states, QUADS, wants(2, 4)) == {"c": "eg"}
    assert put(states, QUADS, wants(1, 12)) == {"c": "e"}


def test_best_linked_cards_are_selected_within_constraints():
    links = [(0, 7, "NVLink", 1), (1, 2, "XGMI", 1)]
    cards = [
        Card(c.id, "v", "m", 16, numa=place // 4, links=c.links) for place, c in enumerate(make_cards(8, (), links))
    ]
    rows = draw_rows(8, lambda a, b: "S" if a // 2 == b // 2 else "H" if a // 4 == b // 4 else "C")

    def choose(**constraint):
        placed = place(build_empty_states(cards), PodRequest((wants(2, **constraint),)), TOPOLOGY, links=connect(rows))
        return "".join(share.card for share in placed.containers["c"])

    assert choose() == "ab"
    assert choose(link="NVLink") == "ah"
    assert choose(link="XGMI", numa="single") == "bc"
    assert choose(numa="single", denied=frozenset()) == "ab"


def test_unhealthy_card_is_excluded_from_linked_sets():
    states = hold(QUADS)
    ill = Card("b", "v", "m", 16, health=Health.UNHEALTHY)
    states[1] = CardState(ill, 16, 1000, empty=True)
    assert put(states, QUADS, wants(4)) == {"c": "efgh"}


def test_search_for_linked_cards_uses_same_number_of_steps_every_time():
    def count():
        budget = Budget(10**6)
        place(hold(QUADS), PodRequest((wants(4),)), TOPOLOGY, budget, connect(QUADS))
        return 10**6 - budget.steps

    assert count() == count() <= 6


def test_placement_too_complex_for_links_falls_back_to_any_cards():
    rows = draw_rows(16, lambda _a, _b: "D")
    request = PodRequest(tuple(wants(8, 1, name=f"{number}") for number in range(60)))
    states = build_empty_states(make_cards(16, [500] * 16))
    bounded = place(states, request, TOPOLOGY, Budget(10**9), connect(rows))
    assert bounded == Misfit(MisfitReason.TOO_COMPLEX)
    assert isinstance(place(states, request, TOPOLOGY), Assignment)
    assert isinstance(place(states, request, TOPOLOGY, links=connect(rows)), Assignment)


def test_whole_cards_have_requested_minimum_memory():
    states = build_empty_states(make_cards(4, [8, 16, 8, 32]))
    assert put(states, FLAT[:4], wants(2, min_memory_bytes=16), policy=Policy.BINPACK) == {"c": "bd"}
    assert put(states, FLAT[:4], wants(1, min_memory_bytes=17)) == {"c": "d"}
    misfit = place(states, PodRequest((wants(2, min_memory_bytes=17),)), TOPOLOGY)
    assert misfit == Misfit(MisfitReason.CARD_MEMORY, 2, "17 B")


def test_occupied_card_that_is_large_enough_is_not_reported_as_too_small():
    states = hold(draw_rows(2, lambda _a, _b: "S"), "b", [8, 16])
    assert put(states, ("XS", "SX"), wants(1, min_memory_bytes=16)) is MisfitReason.WHOLE_CARDS


def test_card_with_unknown_memory_fails_minimum_memory():
    states = build_empty_states([Card("a", "v", "m", None)])
    assert put(states, ("X",), wants(1)) == {"c": "a"}
    assert put(states, ("X",), wants(1, min_memory_bytes=1)) is MisfitReason.CARD_MEMORY


def grouped(*groups, **more):
    return wants(sum(group.cards for group in groups), groups=groups, **more)


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(
    ("used", "groups", "chosen"),
    [
        ("", [TWO], "ab"),
        ("a", [TWO], "cd"),
        ("aceg", [TWO], None),
        ("a", [CardGroup(Near.SOCKET, (0, 0, 0))], "bcd"),
        ("ab", [CardGroup(Near.SOCKET, (0, 0, 0))], "efg"),
        ("ae", [CardGroup(Near.SOCKET, (0,) * 4)], None),
        ("a", [CardGroup(Near.SWITCH, (0, 0), 1), CardGroup(Near.SWITCH, (0, 0), 1)], "efgh"),
        ("a", [TWO, TWO], "cdef"),
        ("ae", [TWO, CardGroup(Near.SOCKET, (0, 0))], "bcdfgh"),
        ("", [TWO, CardGroup(Near.ANY, (0,) * 6)], "abcdefgh"),
    ],
)
def test_cards_of_a_group_are_near_each_other(policy, used, groups, chosen):
    found = put(hold(PAIRS, used), PAIRS, grouped(*groups), policy=policy)
    if chosen is None:
        assert found is MisfitReason.CONSTRAINT
    elif len(chosen) == sum(group.cards for group in groups):
        assert found == {"c": chosen}
    else:
        assert set(found["c"]) <= set(chosen)


def test_each_card_of_group_has_its_minimum_memory():
    rows, memory = draw_tree([2, 2]), [8, 32, 16, 32]
    states = build_empty_states(make_cards(4, memory))
    assert put(states, rows, grouped(CardGroup(Near.SWITCH, (32, 16)))) == {"c": "cd"}
    assert put(states, rows, grouped(CardGroup(Near.SWITCH, (32, 8)))) == {"c": "ab"}
    assert put(states, rows, grouped(CardGroup(Near.SWITCH, (32, 32)))) is MisfitReason.CONSTRAINT
    assert put(states, rows, grouped(CardGroup(Near.SOCKET, (32, 32)))) == {"c": "bd"}


def test_smaller_sufficient_group_is_used_first():
    rows = draw_tree([4, 2])
    assert put(hold(rows), rows, grouped(TWO)) == {"c": "ef"}


def test_groups_use_numa_nodes_of_cards_without_link_matrix():
    cards = [Card(name, "v", "m", 16, numa=number // 2) for number, name in enumerate("abcd")]
    request = PodRequest((grouped(CardGroup(Near.SOCKET, (0, 0)), denied=frozenset()),))
    states = [CardState(card, 16, 1000, empty=card.id != "a") for card in cards]
    assert [share.card for share in place(states, request, Policy.BINPACK).containers["c"]] == ["c", "d"]
    alone = [CardState(Card(name, "v", "m", 16), 16, 1000, empty=True) for name in "ab"]
    assert place(alone, request, Policy.BINPACK).reason is MisfitReason.CONSTRAINT


def test_container_with_groups_reuses_init_container_cards():
    first = wants(1, name="i", kind=Kind.INIT)
    assert put(hold(PAIRS, "ab"), PAIRS, first, grouped(TWO)) == {"i": "c", "c": "cd"}
    assert put(hold(PAIRS, "b"), PAIRS, first, grouped(TWO)) == {"i": "c", "c": "cd"}
    # From a pool of more cards the kubelet draws any.
    several = wants(3, name="i", kind=Kind.INIT)
    assert put(hold(PAIRS), PAIRS, several, grouped(TWO)) is MisfitReason.CONSTRAINT
    assert put(hold(SWITCHED), SWITCHED, several, grouped(TWO)) == {"i": "abc", "c": "ab"}


def test_only_free_group_among_many_cards_is_found():
    rows = draw_rows(24, lambda a, b: "S" if a // 2 == b // 2 else "C")
    free = {10, 11, 3, 5, 17}
    states = hold(rows, "".join(chr(97 + card) for card in range(24) if card not in free))
    assert put(states, rows, grouped(TWO)) == {"c": "kl"}
    assert put(states, rows, grouped(TWO, TWO)) is MisfitReason.CONSTRAINT
    assert put(states, rows, grouped(TWO, CardGroup(Near.ANY, (0,)))) == {"c": "dkl"}


def test_hard_group_placement_is_refused_as_too_complex():
    rows = draw_rows(16, lambda a, b: "S" if (a + b) % 3 else "C")
    groups = [CardGroup(Near.SWITCH, (0, 0), number % 3) for number in range(8)]
    assert put(hold(rows), rows, grouped(*groups)) is MisfitReason.TOO_COMPLEX
