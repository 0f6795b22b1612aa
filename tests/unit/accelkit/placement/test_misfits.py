"""Why a pod does not fit, how policies rank, and where a search ends."""

import pytest

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Link
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.budget import Budget, limit_steps
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import MAX_SCORE, Policy, rank_card, score_node


def cards(*memory, **more):
    return build_empty_states(
        [Card(name, "v", "m", each, **more) for name, each in zip("abcdef", memory, strict=False)]
    )


def wants(memory=0, compute=0, *, name="c", kind=Kind.APP, number=1, **more):
    return ContainerRequest(name, kind, number, memory, compute, **{"whole": not (memory or compute), **more})


def misfit(states, *containers):
    placed = place(states, PodRequest(containers), Policy.BINPACK)
    assert isinstance(placed, Misfit), placed
    return placed


def fits(states, *containers):
    return isinstance(place(states, PodRequest(containers), Policy.BINPACK), Assignment)


def test_misfit_reasons_have_names_used_by_dialects():
    assert {each.name: each.value for each in MisfitReason} == {
        "MEMORY": "InsufficientMemory",
        "MEMORY_CARDS": "InsufficientMemoryOnCards",
        "COMPUTE": "InsufficientCompute",
        "AMOUNT": "InsufficientAmount",
        "WHOLE_CARDS": "InsufficientWholeCards",
        "MODEL": "NoCardOfModel",
        "CARD_MEMORY": "CardsTooSmall",
        "CONSTRAINT": "ConstraintUnmet",
        "REUSE": "InitContainerReuse",
        "TOO_COMPLEX": "TooComplex",
        "NO_INVENTORY": "NoInventory",
        "BAD_INVENTORY": "InventoryUnknown",
        "UNIT": "UnitDiffers",
        "CORRECTING": "AssignmentsBeingCorrected",
        "UNKNOWN_NODE": "UnknownNode",
        "HELD_ELSEWHERE": "HeldElsewhere",
        "CARD_IDS": "CardsNotNamed",
        "BESIDE": "NotBesidePods",
        "APART": "NotApartFromPods",
        "RESERVED": "CardsReserved",
        "QUOTA": "QuotaExceeded",
    }


def test_misfit_error_carries_misfit_and_formats_message():
    found = MisfitError(Misfit(MisfitReason.MODEL, detail="x"))
    assert (str(found), found.misfit) == (
        "cannot reserve cards: NoCardOfModel x",
        Misfit(MisfitReason.MODEL, detail="x"),
    )
    assert str(MisfitError(Misfit(MisfitReason.MEMORY))) == "cannot reserve cards: InsufficientMemory"


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (wants(17), Misfit(MisfitReason.MEMORY, 1)),
        (wants(17, number=2), Misfit(MisfitReason.MEMORY_CARDS, 2)),
        (wants(1, number=3), Misfit(MisfitReason.MEMORY_CARDS, 3)),
        (wants(number=3), Misfit(MisfitReason.WHOLE_CARDS, 3)),
        (wants(16, 1001), Misfit(MisfitReason.COMPUTE, 1)),
        (wants(16, 1001, number=2), Misfit(MisfitReason.COMPUTE, 2)),
        (wants(16, 1001, number=3), Misfit(MisfitReason.MEMORY_CARDS, 3)),
        (wants(17, 1001), Misfit(MisfitReason.MEMORY, 1)),
        (wants(17, model="m"), Misfit(MisfitReason.MEMORY, 1)),
        (wants(1, model="n", number=2), Misfit(MisfitReason.MODEL, 2, "n")),
        (wants(1, allowed=frozenset({7})), Misfit(MisfitReason.MEMORY, 1)),
        (wants(1, link="any", number=2), Misfit(MisfitReason.CONSTRAINT, 2, "c")),
    ],
)
def test_misfit_names_resource_that_container_lacks(container, expected):
    assert misfit(cards(16, 16), container) == expected


def test_misfit_reports_reason_of_last_container_that_search_reached():
    states = cards(16, 16)
    assert misfit(states, wants(4, name="p"), wants(17, name="q", number=2)).reason is MisfitReason.MEMORY_CARDS
    assert misfit(states, wants(17, name="p"), wants(4, name="q", model="x")).reason is MisfitReason.MEMORY


def test_model_present_on_some_cards_is_not_misfit_reason():
    states = [*cards(16), *build_empty_states([Card("z", "v", "n", 16)])]
    assert misfit(states, wants(4, model="n", number=2)).reason is MisfitReason.MEMORY_CARDS


@pytest.mark.parametrize(("memory", "found"), [(None, False), (0, False), (1, True)])
def test_compute_is_shared_only_on_cards_with_shareable_memory(memory, found):
    assert fits(cards(memory), wants(0, 100)) is found


def test_smallest_card_can_be_fully_allocated():
    assert fits(cards(1), wants(1))
    assert not fits(cards(1), wants(2))


def test_card_with_compute_share_of_pod_is_not_assigned_whole_to_same_pod():
    assert fits(cards(16, 16), wants(0, 100, name="p"), wants(name="q"))
    assert misfit(cards(16), wants(0, 100, name="p"), wants(name="q")).reason is MisfitReason.WHOLE_CARDS


def test_reused_whole_cards_are_checked_individually_when_one_is_drawn():
    states = build_empty_states([Card(name, "v", "m", 16, numa=number) for number, name in enumerate("abc")])
    init = wants(name="i", kind=Kind.INIT, number=3)
    assert fits(states, init, wants(numa="single"))
    assert misfit(states, init, wants(numa="single", number=2)) == Misfit(MisfitReason.REUSE, 2, "c")


def test_reused_whole_cards_must_all_be_linked_when_two_are_drawn():
    ring = {"a": ("b", "c"), "b": ("c",), "c": ()}
    linked = build_empty_states(
        [Card(name, "v", "m", 16, links=tuple(Link(to, "x") for to in ring[name])) for name in ring]
    )
    init = wants(name="i", kind=Kind.INIT, number=3)
    assert fits(linked, init, wants(link="x", number=2))
    assert fits(cards(16, 16, 16), init, wants(number=2))
    assert misfit(linked, init, wants(link="y", number=2)).reason is MisfitReason.REUSE


def test_init_container_pool_is_reused_up_to_its_last_unit():
    init = wants(4, name="i", kind=Kind.INIT, number=2)
    assert fits(cards(4, 4), init, wants(4, number=2))
    assert not fits(cards(4, 4), init, wants(4), wants(4, name="d"))
    assert fits(cards(8), wants(8, name="i", kind=Kind.INIT), wants(3), wants(5, name="d"))


def test_identical_cards_are_tried_once_at_every_search_depth():
    filling = [wants(4, name=f"{number}") for number in range(6)]
    assert misfit(cards(16, 16, 16, 16, 16, 16), *filling, wants(20)).reason is MisfitReason.MEMORY


def different(count):
    """Cards of which no two are alike, each with room for a unit."""
    return [CardState(Card(f"{each}", "v", "m", 10_000), each + 1, 1000, empty=False) for each in range(count)]


def test_search_limit_is_1000_steps_plus_steps_of_straight_search():
    policy, request = Policy.BINPACK, PodRequest((wants(1, numa="single"),))
    assert limit_steps(500, request.containers) == 1502
    enough, too_little = Budget(500), Budget(499)
    assert place(different(500), request, policy, enough).reason is MisfitReason.CONSTRAINT
    assert place(different(500), request, policy, too_little).reason is MisfitReason.TOO_COMPLEX
    assert (enough.steps, too_little.is_spent()) == (0, True)


def test_pod_with_128_containers_is_placed_and_larger_pod_is_refused():
    pod = [wants(1, name=f"{number}") for number in range(129)]
    assert fits(cards(10_000), *pod[:128])
    assert misfit(cards(10_000), *pod) == Misfit(MisfitReason.TOO_COMPLEX)


def test_policies_have_documented_names():
    assert [each.value for each in Policy] == ["binpack", "spread", "topology", "fragmentation"]


@pytest.mark.parametrize(
    ("used", "packed"), [(-0.5, 0), (0.0, 0), (1e-9, 1), (0.2, 3), (0.5, 5), (0.9, 9), (1.0, 10), (1.5, 10), (9.0, 10)]
)
def test_node_score_is_one_for_first_share_and_ten_when_full(used, packed):
    assert MAX_SCORE == 10
    assert score_node(Policy.BINPACK, used) == packed
    assert score_node(Policy.SPREAD, used) == 10 - packed


def test_cards_are_ranked_by_free_amount_then_index():
    assert rank_card(Policy.BINPACK, 7, 2) == (7, 2)
    assert rank_card(Policy.SPREAD, 7, 2) == (-7, 2)
