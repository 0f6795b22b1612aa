from __future__ import annotations

import msgspec
import pytest
from support.pods import make_ref

from accelkit.errors import InventoryError
from accelkit.ledger.holding import Stage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import Policy

P, Q, R = (make_ref(name) for name in "pqr")
ORDER = [("c", Kind.APP)]


def inventory(*memory, unit_bytes=1):
    return Inventory(unit_bytes, tuple(Card(f"{number}", "v", "m", size) for number, size in enumerate(memory)))


def wants(memory=0, **more):
    return PodRequest((ContainerRequest("c", Kind.APP, 1, memory, whole=not memory, **more),))


def assigned(*shares):
    return Assignment({"c": shares})


WHOLE = assigned(Share("0", 0, 0, whole=True))


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", inventory(16))
    return ledger


def free(ledger, node="n"):
    return [state.free_bytes for state in ledger.find_node(node).list_card_states()]


def reserve(ledger, pod, memory=0, node="n"):
    return ledger.reserve(pod, node, wants(memory), Policy.BINPACK)


def refusal(ledger, pod, memory=0, node="n"):
    with pytest.raises(MisfitError) as raised:
        reserve(ledger, pod, memory, node)
    return raised.value.misfit


def test_what_the_agent_says_is_held_beyond_assignments_is_not_given_away(ledger):
    shown = msgspec.structs.replace(inventory(16, 16), uncounted=(Share("0", 6, 300),))
    ledger.put_node("n", shown)
    reserve(ledger, P, 4)
    assert free(ledger) == [6, 16]
    assert [state.free_compute for state in ledger.find_node("n").list_card_states()] == [700, 1000]
    ledger.put_node("n", msgspec.structs.replace(shown, uncounted=(Share("0", 0, 0, whole=True),)))
    assert free(ledger) == [0, 16]
    ledger.put_node("n", msgspec.structs.replace(shown, uncounted=()))
    assert free(ledger) == [12, 16]


def test_the_last_share_is_reserved_once(ledger):
    reserve(ledger, P, 10)
    assert refusal(ledger, Q, 10).reason is MisfitReason.MEMORY
    ledger.release(P.uid)
    assert reserve(ledger, Q, 10).containers["c"][0].card == "0"


def test_a_pod_that_only_others_keep_out_is_resolvable(ledger):
    reserve(ledger, P, 10)
    assert refusal(ledger, Q, 10).resolvable
    assert not refusal(ledger, Q, 17).resolvable


def test_a_pod_held_on_one_node_is_refused_on_another_and_says_where_it_is(ledger):
    ledger.put_node("other", inventory(16))
    reserve(ledger, P, 4)
    misfit = refusal(ledger, P, 4, "other")
    assert (misfit.reason, misfit.detail) == (MisfitReason.HELD_ELSEWHERE, "n")


def test_an_unknown_node_takes_nothing(ledger):
    assert refusal(ledger, P, 1, "nowhere").reason is MisfitReason.UNKNOWN_NODE
    assert ledger.find_node("nowhere") is None


@pytest.mark.parametrize(
    ("inventory", "reason"),
    [
        (None, MisfitReason.NO_INVENTORY),
        (InventoryError("garbled"), MisfitReason.BAD_INVENTORY),
        (inventory(16, unit_bytes=2), MisfitReason.UNIT),
        (msgspec.structs.replace(inventory(16), problem="too many devices"), MisfitReason.UNIT),
    ],
)
def test_a_node_without_usable_cards_keeps_its_holdings_and_takes_no_new_share(ledger, inventory, reason):
    reserve(ledger, P, 4)
    ledger.put_node("n", inventory)
    assert refusal(ledger, Q, 4).reason is reason
    assert ledger.find_holding(P.uid) is not None


def test_a_node_that_returns_finds_its_pods_charged(ledger):
    reserve(ledger, P, 4)
    ledger.drop_node("n")
    assert refusal(ledger, Q, 1).reason is MisfitReason.UNKNOWN_NODE
    ledger.put_node("n", inventory(16))
    assert free(ledger) == [12]


def test_a_deleted_node_is_listed_as_long_as_pods_are_on_it(ledger):
    reserve(ledger, P, 4)
    ledger.drop_node("n")
    assert [entry.name for entry in ledger.list_nodes()] == ["n"]
    ledger.release(P.uid)
    assert list(ledger.list_nodes()) == []


def test_what_the_api_server_shows_wins_over_what_was_reserved(ledger):
    reserve(ledger, P, 4)
    ledger.put_node("other", inventory(16))
    ledger.confirm(P, "other", assigned(Share("0", 6)), ORDER)
    assert (free(ledger), free(ledger, "other")) == ([16], [10])


def test_what_was_bound_past_us_is_taken_over_capacity_and_nothing_more_fits(ledger):
    reserve(ledger, P, 12)
    ledger.confirm(Q, "n", assigned(Share("0", 12)), ORDER)
    assert free(ledger) == [-8]
    assert refusal(ledger, R, 1).reason is MisfitReason.MEMORY


def test_a_card_given_whole_twice_stays_taken_until_both_are_gone(ledger):
    ledger.confirm(P, "n", WHOLE, ORDER)
    ledger.confirm(Q, "n", WHOLE, ORDER)
    ledger.release(P.uid)
    assert refusal(ledger, R, 1).reason is MisfitReason.MEMORY
    ledger.release(Q.uid)
    assert reserve(ledger, R, 16)


@pytest.mark.parametrize("unassigned", [False, True])
def test_absurd_amounts_of_others_fill_the_card_and_break_nothing(ledger, unassigned):
    for pod in (P, Q):
        if unassigned:
            ledger.confirm_unassigned(UnassignedPod(pod, "n", wants(MAX_AMOUNT), "it has none"))
        else:
            ledger.confirm(pod, "n", assigned(Share("0", MAX_AMOUNT)), ORDER)
    assert refusal(ledger, R, 1).reason is MisfitReason.MEMORY
    ledger.release(P.uid)
    ledger.release(Q.uid)
    assert free(ledger) == [16]


def test_a_pod_whose_cards_nobody_wrote_down_is_counted_on_every_card(ledger):
    ledger.put_node("n", inventory(16, 16))
    ledger.confirm_unassigned(UnassignedPod(P, "n", wants(6), "it has none"))
    assert free(ledger) == [10, 10]
    assert refusal(ledger, Q).reason is MisfitReason.WHOLE_CARDS


def test_a_whole_card_that_nobody_wrote_down_may_be_any_empty_one(ledger):
    ledger.put_node("n", inventory(16, 16))
    ledger.confirm(P, "n", assigned(Share("0", 4)), ORDER)
    ledger.confirm_unassigned(UnassignedPod(Q, "n", wants(), "it has none"))
    assert free(ledger) == [12, 0]


def test_compute_that_nobody_wrote_down_is_counted_too(ledger):
    ledger.confirm_unassigned(UnassignedPod(P, "n", wants(2, compute=700), "it has none"))
    with pytest.raises(MisfitError) as raised:
        ledger.reserve(Q, "n", wants(2, compute=400), Policy.BINPACK)
    assert raised.value.misfit.reason is MisfitReason.COMPUTE


def test_a_list_releases_what_was_confirmed_and_keeps_what_is_younger(ledger):
    ledger.confirm(P, "n", assigned(Share("0", 2)), ORDER)
    reserve(ledger, Q, 4)
    reserve(ledger, R, 6)
    ledger.accept(R.uid)
    assert {held.pod.uid: held.stage for held in ledger.keep_pods([])} == {
        Q.uid: Stage.RESERVED,
        R.uid: Stage.BOUND,
    }
    assert free(ledger) == [6]


def test_a_pod_that_is_gone_before_its_binding_is_accepted_stays_gone(ledger):
    reserve(ledger, P, 4)
    ledger.release(P.uid)
    ledger.accept(P.uid)
    assert ledger.find_holding(P.uid) is None
    assert free(ledger) == [16]


def test_shares_of_a_card_that_is_gone_are_kept(ledger):
    reserve(ledger, P, 4)
    ledger.put_node("n", Inventory(1, (Card("1", "v", "m", 8),)))
    assert ledger.find_node("n").uses["0"].used_bytes == 4
    assert free(ledger) == [8]


def test_a_reader_without_a_unit_takes_every_unit():
    ledger = Ledger()
    ledger.put_node("n", inventory(16, unit_bytes=7))
    assert ledger.find_node("n").problem is None


@pytest.mark.parametrize("compute", [500, 0])
def test_a_pod_without_memory_whose_cards_nobody_wrote_down_leaves_no_card_empty(ledger, compute):
    request = PodRequest((ContainerRequest("c", Kind.APP, 1, compute=compute),))
    ledger.confirm_unassigned(UnassignedPod(P, "n", request, "it has none"))
    assert refusal(ledger, Q).reason is MisfitReason.WHOLE_CARDS
    assert free(ledger) == [16]


def test_a_node_that_cannot_take_its_next_unit_still_shares_in_the_present_one(ledger):
    ledger.put_node("n", msgspec.structs.replace(inventory(16), problem="too many devices", next_unit_bytes=2))
    assert reserve(ledger, P, 4)
