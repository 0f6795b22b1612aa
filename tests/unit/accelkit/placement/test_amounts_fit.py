"""Amounts that are numbers and nothing else, as `fit.place` counts them."""

from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.amounts import build_amounts
from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_reasons import CardReason, find_card_reason
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.charges import count_charges
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy

AMOUNTS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 4)).map(build_amounts)


@st.composite
def states(draw):
    number = draw(st.integers(1, 4))
    frees = [draw(AMOUNTS) for _ in range(number)]
    cards = [
        Card(f"c{index}", "v", "m", draw(st.sampled_from([None, 4])), amounts=free) for index, free in enumerate(frees)
    ]
    return [CardState(card, card.capacity_bytes, 1000, empty=True, free_amounts=card.amounts) for card in cards]


@st.composite
def requests(draw):
    kinds = draw(st.lists(st.sampled_from(list(Kind)), min_size=1, max_size=4))
    return [
        ContainerRequest(
            f"c{index}",
            kind,
            draw(st.integers(1, 2)),
            draw(st.sampled_from([0, 0, 1])),
            amounts=draw(AMOUNTS),
            counted_by=draw(st.sampled_from(["", "a"])),
        )
        for index, kind in enumerate(sorted(kinds, key=list(Kind).index))
    ]


@given(states(), requests())
def test_container_fits_if_enough_cards_satisfy_request(cards, containers):
    container = containers[0]
    able = [each for each in cards if find_card_reason(each, container) is None]
    placed = place(cards, PodRequest((container,)), Policy.BINPACK)
    assert isinstance(placed, Assignment) == (len(able) >= container.cards)
    if isinstance(placed, Assignment):
        assert {share.card for share in placed.containers[container.container]} <= {each.card.id for each in able}


@given(states(), requests())
def test_pod_never_exceeds_free_amounts_of_card(cards, containers):
    request = PodRequest(tuple(containers))
    placed = place(cards, request, Policy.BINPACK)
    if isinstance(placed, Misfit):
        return
    for card, charge in count_charges(request.order, placed.containers).items():
        (state,) = [each for each in cards if each.card.id == card]
        free = dict(state.free_amounts)
        for name, amount in charge.amounts:
            assert amount <= free.get(name, amount if name == "a" else 0)


def test_amounts_of_containers_add_up_and_misfit_names_resource():
    cards = build_empty_states([Card(name, "v", "m", None, amounts=(("a", 4),)) for name in "xy"])
    asked = [
        ContainerRequest(name, Kind.APP, 1, amounts=(("a", amount),))
        for name, amount in zip("klm", (3, 3, 1), strict=True)
    ]
    placed = place(cards, PodRequest(tuple(asked)), Policy.BINPACK)
    assert [placed.containers[name][0].card for name in "klm"] == ["x", "y", "x"]
    asked.append(ContainerRequest("n", Kind.APP, 1, amounts=(("a", 2),)))
    assert place(cards, PodRequest(tuple(asked)), Policy.BINPACK) == Misfit(MisfitReason.AMOUNT, 1, "a")


def test_card_reason_is_amount_when_amount_is_insufficient():
    (state,) = build_empty_states([Card("x", "v", "m", None, amounts=(("a", 4),))])
    assert find_card_reason(state, ContainerRequest("c", Kind.APP, 1, amounts=(("a", 5),))) is CardReason.AMOUNT
    assert find_card_reason(state, ContainerRequest("c", Kind.APP, 1, amounts=(("b", 0),))) is CardReason.AMOUNT
    assert find_card_reason(state, ContainerRequest("c", Kind.APP, 1, 1, amounts=(("a", 1),))) is (
        CardReason.UNKNOWN_MEMORY
    )
