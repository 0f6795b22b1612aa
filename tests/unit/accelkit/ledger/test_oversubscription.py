"""Cards whose shares together may take more than the card has."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.requests import build_inventory, build_request

from accelkit.audit.comparison import AuditEvidence, audit
from accelkit.errors import InventoryError
from accelkit.inspection.inspection import assemble, view_node
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_reasons import CardReason, find_card_reason
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import Policy

CARD = Card("a", "v", "m", 20, reserved_bytes=4, memory_factor=1.5)


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", Inventory(1, (CARD,)))
    return ledger


def reserve(ledger, name, request):
    return ledger.reserve(PodRef("d", name, name), "n", request, Policy.BINPACK)


def test_shares_fill_oversubscribed_card_but_none_exceeds_its_memory(ledger):
    assert (CARD.own_bytes, CARD.capacity_bytes) == (16, 24)
    with pytest.raises(MisfitError) as raised:
        reserve(ledger, "p", build_request(17))
    assert (raised.value.misfit.reason, raised.value.misfit.resolvable) == (MisfitReason.MEMORY, False)
    reserve(ledger, "p", build_request(16))
    reserve(ledger, "q", build_request(8))
    with pytest.raises(MisfitError):
        reserve(ledger, "r", build_request(1))


def test_card_state_limits_one_container_to_memory_of_card(ledger):
    (state,) = ledger.find_node("n").list_card_states()
    assert (state.free_bytes, state.room_bytes) == (24, 16)
    assert find_card_reason(state, build_request(17).containers[0]) is CardReason.MEMORY
    assert find_card_reason(state, build_request(16).containers[0]) is None


@given(st.data())
def test_verdict_by_columns_matches_placement_on_oversubscribed_cards(data):
    ledger = Ledger(unit_bytes=1)
    verdicts = ShapeVerdicts(ledger)
    for name in "nm":
        cards = [
            Card(f"{number}", "v", "m", data.draw(st.sampled_from([None, 8, 16])), memory_factor=factor)
            for number, factor in enumerate(data.draw(st.lists(st.sampled_from([1.0, 1.5, 2.0]), max_size=3)))
        ]
        ledger.put_node(name, Inventory(1, tuple(cards)))
    for step in range(data.draw(st.integers(0, 6))):
        node = ledger.find_node(data.draw(st.sampled_from("nm")))
        request = build_request(data.draw(st.integers(0, 12)))
        if isinstance(ledger.place(node, request, Policy.SPREAD), Assignment):
            ledger.reserve(PodRef("d", f"{step}", f"{step}"), node.name, request, Policy.SPREAD)
    request = build_request(data.draw(st.integers(0, 18)), cards=data.draw(st.integers(1, 2)))
    verdict = verdicts.judge(request, Policy.BINPACK)
    searched = PodRequest(tuple(msgspec.structs.replace(each, compute=1) for each in request.containers))
    if request.containers[0].whole:
        searched = request
    slow = verdicts.judge(searched, Policy.BINPACK)
    for _ in verdicts.judge_stale(slow, list(slow.stale), Budget(10**6)):
        pass
    for entry in ledger.list_nodes():
        placed = ledger.place(entry, request, Policy.BINPACK)
        assert (entry.name in verdict.fits) == isinstance(placed, Assignment)
        assert (entry.name in slow.fits) == isinstance(placed, Assignment)
        if not isinstance(placed, Assignment):
            assert verdict.reasons[verdict.failing[entry.name]].resolvable == placed.resolvable


def test_inspect_and_audit_report_oversubscription(ledger):
    inspection = assemble([view_node(ledger.find_node("n"))], 1)
    (card,) = inspection.nodes[0].cards
    assert (card.memory_factor, card.capacity_bytes, card.memory_bytes) == (1.5, 24, 20)
    found = audit(AuditEvidence(inspection, [], {}, inspection, {}))
    assert "1 card of n: shares may use 1.5 times its memory (oversubscription)" in found.notes
    assert found.findings == []


def test_memory_factor_defaults_to_one_and_invalid_factor_is_refused():
    text = encode_inventory(build_inventory("a"))
    assert "memory_factor" not in text
    assert decode_inventory(text).cards[0].memory_factor == 1
    for factor in (0.5, 17, -1, "1e400"):
        broken = encode_inventory(Inventory(1, (CARD,))).replace("1.5", str(factor))
        with pytest.raises(InventoryError, match=r"memory factor|cannot read"):
            decode_inventory(broken)
    unknown = Card("a", "v", "m", None, memory_factor=2)
    assert decode_inventory(encode_inventory(Inventory(1, (unknown,)))).cards[0].capacity_bytes == 0
