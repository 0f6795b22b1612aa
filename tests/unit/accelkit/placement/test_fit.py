import pytest

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Link
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy
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
def test_policy_selects_fullest_or_emptiest_card_that_fits(policy, expected):
    states = [used("a", 3), used("b", 5), *build_empty_states([card("c")]), used("d", 6)]
    assert chosen(states, pod(wants(4)), policy) == {"c": expected}


def test_whole_card_request_skips_shared_card_and_allocates_full_capacity():
    placed = place([used("a", 15), *build_empty_states([card("b")])], pod(wants()), BINPACK)
    (share,) = placed.containers["c"]
    assert (share.card, share.memory_bytes, share.compute, share.whole) == ("b", 16, 1000, True)


def test_app_containers_share_card_only_up_to_its_memory():
    assert chosen(AB, pod(wants(12, name="p"), wants(8, name="q"))) == {"p": "a", "q": "b"}
    assert chosen(AB, pod(wants(8, name="p"), wants(8, name="q"))) == {"p": "a", "q": "a"}


def test_placement_backtracks_from_failing_first_choice():
    states = build_empty_states([card("a", 8), card("b", 16)])
    assert chosen(states, pod(wants(8, name="p", policy="spread"), wants(10, name="q"))) == {"p": "a", "q": "b"}


@pytest.mark.parametrize(("first", "then"), [(8, 4), (4, 8), (16, 16)])
def test_app_container_reuses_memory_of_init_container(first, then):
    request = pod(wants(first, name="i", kind=Kind.INIT), wants(then, name="c"))
    assert chosen([used("a", max(first, then)), *AB[1:]], request) == {"i": "a", "c": "a"}


def test_partially_reused_init_pool_on_several_cards_is_refused():
    request = pod(wants(4, name="i", kind=Kind.INIT, cards=2), wants(4, name="c"))
    placed = place(AB, request, BINPACK)
    assert placed == Misfit(MisfitReason.REUSE, 1, "c")


def test_whole_card_of_init_container_is_not_reused_for_memory_request():
    request = pod(wants(name="i", kind=Kind.INIT), wants(4, name="c"))
    assert chosen(AB, request) == {"i": "a", "c": "b"}


def test_reused_whole_cards_must_all_satisfy_constraint():
    states = build_empty_states([card("a", model="x"), card("b", model="y")])
    request = pod(wants(name="i", kind=Kind.INIT, cards=2), wants(name="c", model="x"))
    assert reason(states, request) is MisfitReason.REUSE


def test_init_pool_that_violates_constraint_of_next_container_is_refused():
    request = pod(
        wants(4, name="i", kind=Kind.INIT, cards=2, model="m"), wants(4, name="c", cards=2, numa="single", model="m")
    )
    states = build_empty_states([card("a", numa=0), card("b", numa=1)])
    assert place(states, request, BINPACK) == Misfit(MisfitReason.CONSTRAINT, 2, "c")


def test_same_card_as_selects_card_of_named_container():
    states = build_empty_states([card("a"), card("b")])
    request = pod(wants(4, name="p"), wants(4, name="q", same_card_as="p", policy="spread"))
    assert chosen(states, request, SPREAD) == {"p": "a", "q": "a"}
    assert chosen(states, pod(wants(4, name="p"), wants(4, name="q")), SPREAD) == {"p": "a", "q": "b"}


def linked(*pairs, kind="NVLink"):
    names = "abcd"
    links = {name: tuple(Link(b, kind) for a, b in pairs if a == name) for name in names}
    return build_empty_states([card(name, links=links[name]) for name in names])


def test_link_reported_by_one_card_applies_to_both_cards():
    request = pod(wants(4, name="p", cards=2), wants(4, name="q", cards=2, link="any", same_card_as="p"))
    assert chosen(linked("ac"), request) == {"p": "ac", "q": "ac"}


def test_numa_constraint_over_64_cards_is_decided_within_step_limit():
    # Taken one combination after the other these would be 10^18.
    states = build_empty_states([card(f"{number}", numa=number % 32) for number in range(64)])
    assert reason(states, pod(wants(4, cards=32, numa="single"))) is MisfitReason.CONSTRAINT


def test_hard_placement_is_refused_as_too_complex():
    states = [used(f"{number}", 1000 + number, memory=2000) for number in range(40)]
    request = pod(*(wants(50 + number, name=f"{number}", cards=5) for number in range(120)))
    assert reason(states, request) is MisfitReason.TOO_COMPLEX


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
def test_card_required_by_later_container_is_not_assigned_earlier(states, first, second):
    assert chosen(states, pod(wants(name="1", **first), wants(name="2", **second))) == {"1": "b", "2": "a"}


def test_overcommitted_compute_blocks_only_requests_for_compute():
    assert chosen([used("a", 16, compute=-1)], pod(wants(4))) == {"c": "a"}
    assert reason([used("a", 16, compute=-1)], pod(wants(4, compute=1))) is MisfitReason.COMPUTE


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.SPREAD, Policy.TOPOLOGY])
@pytest.mark.parametrize(("nic", "expected"), [(True, "c"), (False, "a")])
def test_nic_request_prefers_card_near_network_card(policy, nic, expected):
    states = build_empty_states([card("a"), card("b", nic="C"), card("c", nic="H"), card("d", nic="S")])
    assert chosen(states, pod(wants(nic=nic)), policy) == {"c": expected}


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.TOPOLOGY])
def test_nic_proximity_is_preference_and_not_requirement(policy):
    states = build_empty_states([card("a"), card("b"), card("c", nic="S")])
    assert chosen(states, pod(wants(nic=True)), policy) == {"c": "c"}
    assert len(chosen(states, pod(wants(nic=True, cards=2)), policy)["c"]) == 2


def test_nic_request_prefers_linked_cards_near_network_card():
    pairs = {"a": "b", "b": "a", "c": "d", "d": "c"}
    cards = [
        card(name, links=(Link(other, "NVLink"),), nic="S" if name in "cd" else "C") for name, other in pairs.items()
    ]
    states, links = build_empty_states(cards), find_links(cards)
    for nic, expected in ((False, "ab"), (True, "cd")):
        placed = place(states, pod(wants(cards=2, nic=nic)), Policy.TOPOLOGY, links=links)
        assert "".join(share.card for share in placed.containers["c"]) == expected
