import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fit_search import card_states, requests

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Health
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_reasons import CardReason, find_card_reason
from accelkit.placement.card_state import CardState
from accelkit.placement.fit import place
from accelkit.placement.policies import Policy

CARD = Card("a", "v", "m", 16, index=1)
FREE = CardState(CARD, 16, 1000, empty=True)


def asks(memory=4, **more):
    return ContainerRequest("c", Kind.APP, 1, 0 if more.get("whole") else memory, **more)


def state(free=16, *, compute=1000, empty=True, **of_card):
    return CardState(msgspec.structs.replace(CARD, **of_card), free, compute, empty=empty)


@pytest.mark.parametrize(
    ("state", "asked", "reason"),
    [
        (FREE, asks(), None),
        (FREE, asks(whole=True), None),
        (state(cordoned=True, health=Health.UNHEALTHY), asks(), CardReason.CORDONED),
        (state(health=Health.UNHEALTHY), asks(model="n"), CardReason.UNHEALTHY),
        (state(health=Health.UNKNOWN), asks(), None),
        (FREE, asks(20, model="n"), CardReason.MODEL),
        (FREE, asks(20, min_memory_bytes=17), CardReason.CARD_MEMORY),
        (FREE, asks(whole=True, min_memory_bytes=16), None),
        (state(0, memory_bytes=None), asks(whole=True, min_memory_bytes=1), CardReason.CARD_MEMORY),
        (FREE, asks(20, allowed=frozenset({2})), CardReason.NOT_ALLOWED),
        (FREE, asks(20, denied=frozenset({1})), CardReason.NOT_ALLOWED),
        (state(12, empty=False), asks(whole=True), CardReason.IN_USE),
        (state(0, memory_bytes=None), asks(), CardReason.UNKNOWN_MEMORY),
        (state(0, memory_bytes=None), asks(whole=True), None),
        (state(0, reserved_bytes=16), asks(0, compute=1), CardReason.MEMORY),
        (state(3, empty=False), asks(compute=2000), CardReason.MEMORY),
        (state(4, compute=299, empty=False), asks(compute=300), CardReason.COMPUTE),
        (state(4, compute=-1, empty=False), asks(), None),
    ],
)
def test_first_matching_card_reason_is_reported(state, asked, reason):
    assert find_card_reason(state, asked) is reason


@given(card_states(), requests(), st.data())
def test_card_has_no_reason_exactly_if_single_container_fits(states, request, data):
    container = msgspec.structs.replace(
        data.draw(st.sampled_from(request.containers)), cards=1, same_card_as="", link="", numa="", groups=()
    )
    for each in states:
        placed = place([each], PodRequest((container,)), Policy.BINPACK)
        assert (find_card_reason(each, container) is None) == isinstance(placed, Assignment)
