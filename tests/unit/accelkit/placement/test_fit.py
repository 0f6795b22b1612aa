from __future__ import annotations

import pytest

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Health, Link
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import MAX_SCORE, Policy, rank_card, score_node
from accelkit.placement.topology.links import find_links

BINPACK, SPREAD = Policy.BINPACK, Policy.SPREAD


def card(name, memory=16, **more):
    return Card(name, "v", more.pop("model", "m"), memory, **more)


def pod(*containers):
    return PodRequest(containers)


def wants(memory=0, *, name="c", kind=Kind.APP, cards=1, **more):
    return ContainerRequest(name, kind, cards, memory, whole=not memory, **more)


def used(name, free, *, memory=16, compute=1000, **more):
    return CardState(card(name, memory, **more), free, compute, empty=False)


def chosen(states, request, policy=BINPACK):
    placed = place(states, request, policy)
    assert isinstance(placed, Assignment), placed
    return {name: "".join(share.card for share in shares) for name, shares in placed.containers.items()}


def reason(states, request, policy=BINPACK):
    placed = place(states, request, policy)
    assert isinstance(placed, Misfit), placed
    return placed.reason


AB = build_empty_states([card("a"), card("b")])


@pytest.mark.parametrize(("policy", "expected"), [(BINPACK, "b"), (SPREAD, "c")])
def test_the_policy_chooses_the_fullest_or_the_emptiest_card_that_fits(policy, expected):
    states = [used("a", 3), used("b", 5), *build_empty_states([card("c")]), used("d", 6)]
    assert chosen(states, pod(wants(4)), policy) == {"c": expected}


def test_equal_cards_are_taken_in_the_order_of_the_node():
    assert chosen(AB, pod(wants(4)), SPREAD) == {"c": "a"}


def test_a_container_may_have_a_policy_of_its_own():
    states = [used("a", 5), *build_empty_states([card("b")])]
    assert chosen(states, pod(wants(4, policy="spread")), BINPACK) == {"c": "b"}


def test_a_shared_card_is_not_given_whole_and_the_whole_card_takes_all_of_it():
    placed = place([used("a", 15), *build_empty_states([card("b")])], pod(wants()), BINPACK)
    (share,) = placed.containers["c"]
    assert (share.card, share.memory_bytes, share.compute, share.whole) == ("b", 16, 1000, True)


def test_containers_of_one_pod_do_not_share_its_whole_card():
    assert chosen(AB, pod(wants(name="w"), wants(4, name="s"))) == {"w": "a", "s": "b"}
    assert reason(AB[:1], pod(wants(name="w"), wants(4, name="s"))) is MisfitReason.MEMORY
    assert reason(AB[:1], pod(wants(4, name="s"), wants(name="w"))) is MisfitReason.WHOLE_CARDS


def test_app_containers_may_share_a_card_only_as_far_as_it_goes():
    assert chosen(AB, pod(wants(12, name="p"), wants(8, name="q"))) == {"p": "a", "q": "b"}
    assert chosen(AB, pod(wants(8, name="p"), wants(8, name="q"))) == {"p": "a", "q": "a"}


def test_a_first_choice_that_leads_nowhere_is_taken_back():
    states = build_empty_states([card("a", 8), card("b", 16)])
    assert chosen(states, pod(wants(8, name="p", policy="spread"), wants(10, name="q"))) == {"p": "a", "q": "b"}


@pytest.mark.parametrize(("first", "then"), [(8, 4), (4, 8), (16, 16)])
def test_an_init_container_and_the_app_after_it_share_the_card(first, then):
    request = pod(wants(first, name="i", kind=Kind.INIT), wants(then, name="c"))
    assert chosen([used("a", max(first, then)), *AB[1:]], request) == {"i": "a", "c": "a"}


def test_an_app_that_its_init_containers_card_cannot_hold_moves_both():
    states = [used("a", 6), used("b", 12)]
    request = pod(wants(4, name="i", kind=Kind.INIT), wants(8, name="c"))
    assert chosen(states, request) == {"i": "b", "c": "b"}


def test_a_pool_on_several_cards_that_is_not_used_up_is_refused():
    request = pod(wants(4, name="i", kind=Kind.INIT, cards=2), wants(4, name="c"))
    placed = place(AB, request, BINPACK)
    assert placed == Misfit(MisfitReason.REUSE, 1, "c")


def test_a_pool_on_several_cards_that_is_used_up_is_taken_over():
    request = pod(wants(4, name="i", kind=Kind.INIT, cards=2), wants(6, name="c", cards=2))
    assert chosen(AB, request) == {"i": "ab", "c": "ab"}


def test_a_pool_larger_than_what_the_container_takes_of_each_card_is_refused():
    request = pod(wants(8, name="i", kind=Kind.INIT), wants(6, name="c", cards=2))
    assert reason(AB, request) is MisfitReason.REUSE


def test_whole_cards_of_an_init_container_are_not_drawn_for_memory():
    request = pod(wants(name="i", kind=Kind.INIT), wants(4, name="c"))
    assert chosen(AB, request) == {"i": "a", "c": "b"}


def test_an_app_takes_over_the_whole_cards_of_its_init_container():
    request = pod(wants(name="i", kind=Kind.INIT), wants(name="c"))
    assert chosen(AB, request) == {"i": "a", "c": "a"}
    assert chosen(AB, pod(wants(name="i", kind=Kind.INIT), wants(name="c", cards=2))) == {"i": "a", "c": "ab"}


def test_whole_cards_drawn_at_random_must_all_meet_the_constraint():
    states = build_empty_states([card("a", model="x"), card("b", model="y")])
    request = pod(wants(name="i", kind=Kind.INIT, cards=2), wants(name="c", model="x"))
    assert reason(states, request) is MisfitReason.REUSE


def test_any_of_an_init_containers_whole_cards_may_be_drawn_where_all_will_do():
    request = pod(wants(name="i", kind=Kind.INIT, cards=2), wants(name="c"), wants(name="d"))
    assert chosen(AB, request) == {"i": "ab", "c": "a", "d": "b"}


def test_a_pool_that_breaks_the_constraint_of_the_next_container_is_refused():
    request = pod(
        wants(4, name="i", kind=Kind.INIT, cards=2, model="m"), wants(4, name="c", cards=2, numa="single", model="m")
    )
    states = build_empty_states([card("a", numa=0), card("b", numa=1)])
    assert place(states, request, BINPACK) == Misfit(MisfitReason.CONSTRAINT, 2, "c")


def test_a_sidecar_keeps_its_devices():
    request = pod(wants(8, name="s", kind=Kind.SIDECAR), wants(10, name="c"))
    assert chosen(AB, request) == {"s": "a", "c": "b"}


def test_an_unhealthy_card_is_left_out_and_one_of_unknown_health_is_not():
    states = build_empty_states([card("a", health=Health.UNHEALTHY), card("b", health=Health.UNKNOWN)])
    assert chosen(states, pod(wants(4))) == {"c": "b"}
    assert reason(states, pod(wants(cards=2))) is MisfitReason.WHOLE_CARDS


def test_a_card_of_unknown_memory_is_given_whole_only():
    states = build_empty_states([card("a", None)])
    assert chosen(states, pod(wants())) == {"c": "a"}
    assert reason(states, pod(wants(1))) is MisfitReason.MEMORY


def test_memory_on_several_cards_takes_different_ones_and_says_so_where_they_lack():
    assert chosen(AB, pod(wants(8, cards=2))) == {"c": "ab"}
    assert place(AB, pod(wants(8, cards=3)), BINPACK) == Misfit(MisfitReason.MEMORY_CARDS, 3)


def test_a_model_that_no_card_has_is_named():
    assert place(AB, pod(wants(4, model="x")), BINPACK) == Misfit(MisfitReason.MODEL, 1, "x")


def test_a_card_without_compute_left_is_refused_for_compute():
    assert reason([used("a", 16, compute=300)], pod(wants(4, compute=400))) is MisfitReason.COMPUTE
    assert chosen([used("a", 16, compute=400)], pod(wants(4, compute=400))) == {"c": "a"}


def test_same_card_as_follows_the_container_it_names():
    states = build_empty_states([card("a"), card("b")])
    request = pod(wants(4, name="p"), wants(4, name="q", same_card_as="p", policy="spread"))
    assert chosen(states, request, SPREAD) == {"p": "a", "q": "a"}
    assert chosen(states, pod(wants(4, name="p"), wants(4, name="q")), SPREAD) == {"p": "a", "q": "b"}


NUMA = build_empty_states([card("a", numa=0), card("b", numa=1), card("c", numa=1), card("d"), card("e")])


def test_single_numa_takes_cards_of_one_known_node():
    assert chosen(NUMA, pod(wants(4, cards=2, numa="single"))) == {"c": "bc"}
    assert reason(NUMA, pod(wants(4, cards=3, numa="single"))) is MisfitReason.CONSTRAINT
    assert reason(NUMA[3:], pod(wants(4, numa="single"))) is MisfitReason.CONSTRAINT


def linked(*pairs, kind="NVLink"):
    names = "abcd"
    links = {name: tuple(Link(b, kind) for a, b in pairs if a == name) for name in names}
    return build_empty_states([card(name, links=links[name]) for name in names])


def test_linked_cards_are_all_linked_to_each_other_by_that_kind():
    states = linked(*("bc", "cb", "cd", "dc"))
    assert chosen(states, pod(wants(4, cards=2, link="any"))) == {"c": "bc"}
    assert chosen(states, pod(wants(4, cards=2, link="NVLink"))) == {"c": "bc"}
    assert reason(states, pod(wants(4, cards=2, link="XGMI"))) is MisfitReason.CONSTRAINT
    assert reason(states, pod(wants(4, cards=3, link="any"))) is MisfitReason.CONSTRAINT


@pytest.mark.parametrize("pair", ["ab", "ba"])
def test_a_link_counts_from_whichever_end_it_was_reported(pair):
    assert chosen(linked(pair), pod(wants(4, cards=2, link="any"))) == {"c": "ab"}


def test_a_card_that_others_link_to_is_not_taken_for_one_without_links():
    request = pod(wants(4, name="p", cards=2), wants(4, name="q", cards=2, link="any", same_card_as="p"))
    assert chosen(linked("ac"), request) == {"p": "ac", "q": "ac"}


def test_alike_cards_are_not_searched_again_and_again():
    states = build_empty_states([card(f"{number}") for number in range(16)])
    request = pod(wants(16, name="p", cards=8), wants(16, name="q", cards=9))
    assert reason(states, request) is MisfitReason.MEMORY_CARDS


def test_constraints_over_many_cards_are_decided_quickly():
    # Taken one combination after the other these would be 10^18.
    states = build_empty_states([card(f"{number}", numa=number % 32) for number in range(64)])
    assert reason(states, pod(wants(4, cards=32, numa="single"))) is MisfitReason.CONSTRAINT


def test_a_puzzle_ends_with_too_complex():
    states = [used(f"{number}", 1000 + number, memory=2000) for number in range(40)]
    request = pod(*(wants(50 + number, name=f"{number}", cards=5) for number in range(120)))
    assert reason(states, request) is MisfitReason.TOO_COMPLEX


@pytest.mark.parametrize("policy", Policy)
def test_scores_stay_in_the_schedulers_range_and_tell_used_from_unused(policy):
    scores = [score_node(policy, fraction) for fraction in (0.0, 1e-9, 0.5, 1.0, 1.5)]
    assert all(0 <= score <= MAX_SCORE for score in scores)
    assert scores == sorted(scores, reverse=policy is SPREAD)
    assert scores[0] != scores[1]


def test_ranks_put_fuller_cards_first_or_last():
    assert rank_card(BINPACK, 1, 9) < rank_card(BINPACK, 2, 0) < rank_card(BINPACK, 2, 1)
    assert rank_card(SPREAD, 2, 9) < rank_card(SPREAD, 1, 0) < rank_card(SPREAD, 1, 1)


def test_a_pod_of_very_many_containers_is_refused_rather_than_searched():
    request = pod(*(wants(1, name=f"{number}") for number in range(3000)))
    assert reason(build_empty_states([card("a", 10_000)]), request) is MisfitReason.TOO_COMPLEX


def test_cards_that_differ_in_their_numa_node_alone_are_both_tried():
    states = build_empty_states([card("a", numa=0), card("b", numa=1), card("c", numa=1)])
    assert chosen(states, pod(wants(4, cards=2, numa="single"))) == {"c": "bc"}


def test_cards_that_differ_in_their_links_alone_are_both_tried():
    states = build_empty_states([card("a"), card("b", links=(Link("c", "x"),)), card("c")])
    assert chosen(states, pod(wants(4, cards=2, link="x"))) == {"c": "bc"}
    states = build_empty_states([card("a", links=(Link("z", "x"),)), card("b", links=(Link("c", "x"),)), card("c")])
    assert chosen(states, pod(wants(4, cards=2, link="x"))) == {"c": "bc"}


@pytest.mark.parametrize(
    ("states", "first", "second"),
    [
        (build_empty_states([card("a"), card("b", model="n")]), {}, {"model": "m"}),
        (build_empty_states([card("a", index=0), card("b", index=1)]), {}, {"allowed": (0,)}),
        ([used("a", 16), used("b", 16, compute=300)], {"memory": 16}, {"memory": 4, "compute": 500}),
        ([*build_empty_states([card("a")]), used("b", 16)], {"memory": 4}, {}),
    ],
    ids=["model", "number", "compute", "empty"],
)
def test_a_card_that_a_later_container_needs_is_left_to_it(states, first, second):
    assert chosen(states, pod(wants(name="1", **first), wants(name="2", **second))) == {"1": "b", "2": "a"}


def test_compute_that_others_took_too_much_of_is_nothing_to_those_who_ask_for_none():
    assert chosen([used("a", 16, compute=-1)], pod(wants(4))) == {"c": "a"}
    assert reason([used("a", 16, compute=-1)], pod(wants(4, compute=1))) is MisfitReason.COMPUTE


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.SPREAD, Policy.TOPOLOGY])
@pytest.mark.parametrize(("nic", "expected"), [(True, "c"), (False, "a")])
def test_who_asks_for_a_network_card_gets_a_card_near_one(policy, nic, expected):
    states = build_empty_states([card("a"), card("b", nic="C"), card("c", nic="H"), card("d", nic="S")])
    assert chosen(states, pod(wants(nic=nic)), policy) == {"c": expected}


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.TOPOLOGY])
def test_near_a_network_card_is_a_wish_and_no_condition(policy):
    states = build_empty_states([card("a"), card("b"), card("c", nic="S")])
    assert chosen(states, pod(wants(nic=True)), policy) == {"c": "c"}
    assert len(chosen(states, pod(wants(nic=True, cards=2)), policy)["c"]) == 2


def test_sets_of_linked_cards_are_sought_among_those_near_a_network_card_first():
    pairs = {"a": "b", "b": "a", "c": "d", "d": "c"}
    cards = [
        card(name, links=(Link(other, "NVLink"),), nic="S" if name in "cd" else "C") for name, other in pairs.items()
    ]
    states, links = build_empty_states(cards), find_links(cards)
    for nic, expected in ((False, "ab"), (True, "cd")):
        placed = place(states, pod(wants(cards=2, nic=nic)), Policy.TOPOLOGY, links=links)
        assert "".join(share.card for share in placed.containers["c"]) == expected
