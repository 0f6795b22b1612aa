import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import build_empty_states
from accelkit.placement.charges import Charge, count_charges
from accelkit.placement.fit import place
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.quota_amounts import QuotaAmounts, sum_charges, sum_request

CARDS = build_empty_states([Card(name, "v", "m", 1000) for name in "abcdef"])


def test_quota_counts_whole_cards_as_cards_and_shares_as_memory_and_compute():
    held = [Charge(16, 1000, whole=True), Charge(4, 300, whole=False), Charge(2, 0, whole=False)]
    assert sum_charges(held) == QuotaAmounts(6, 1, 300)


def test_quota_counts_cards_requested_by_number_regardless_of_amounts():
    one = ContainerRequest("c", Kind.APP, 8, amounts=(("g", 1),), counted_by="g")
    request = PodRequest((msgspec.structs.replace(one, container="i", kind=Kind.INIT, cards=2), one))
    assert sum_request(request) == QuotaAmounts(0, 10, 0)
    many = build_empty_states([Card(name, "v", "m", 1000) for name in "abcdefgh"])
    placed = place(many, request, Policy.BINPACK)
    assert sum_charges(count_charges(request.order, placed.containers).values()) == QuotaAmounts(0, 10, 0)


@st.composite
def containers(draw):
    found = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([Kind.INIT, Kind.APP, Kind.SIDECAR]))
        cards = draw(st.integers(1, 3))
        if draw(st.integers(0, 3)) == 0:
            found.append(ContainerRequest(f"{number}", kind, cards, whole=True))
        else:
            memory, compute = draw(st.integers(1, 20)), draw(st.sampled_from([0, 10]))
            counted = {"amounts": (("g", 1),), "counted_by": "g"} if draw(st.booleans()) else {}
            found.append(ContainerRequest(f"{number}", kind, cards, memory, compute, **counted))
    order = [Kind.INIT, Kind.SIDECAR, Kind.APP]
    # Init containers and sidecars come first, in any order among each other.
    return PodRequest(tuple(sorted(found, key=lambda each: order.index(each.kind) // 2)))


@given(containers())
def test_quota_amounts_of_request_equal_charges_of_placement(request):
    placed = place(CARDS, request, Policy.BINPACK)
    if isinstance(placed, Assignment):
        charges = count_charges(request.order, placed.containers)
        assert sum_request(request) == sum_charges(charges.values())
