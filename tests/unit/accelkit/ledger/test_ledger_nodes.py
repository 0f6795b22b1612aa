"""Nodes of the ledger: why they take no share, which are listed, and how much of them is used."""

import msgspec
import pytest
from support.pods import make_ref
from support.requests import build_inventory, build_request

from accelkit.errors import InventoryError
from accelkit.ledger.feed import DEFAULT_UNIT_BYTES
from accelkit.ledger.holding import ShareStage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import Policy

P, Q = (make_ref(name) for name in "pq")
CARD = Card("a", "v", "m", 16)
WANTS = build_request(4)


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", Inventory(1, (CARD,)))
    return ledger


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (None, Misfit(MisfitReason.NO_INVENTORY, resolvable=False)),
        (InventoryError("garbled"), Misfit(MisfitReason.BAD_INVENTORY, detail="garbled", resolvable=False)),
        (Inventory(7, (CARD,)), Misfit(MisfitReason.UNIT, detail="it still uses 7 B", resolvable=False)),
        (
            Inventory(2**30, (CARD,), next_unit_bytes=1, problem="too many"),
            Misfit(MisfitReason.UNIT, detail="it still uses 1GiB", resolvable=False),
        ),
        (
            Inventory(1, (CARD,), problem="too many"),
            Misfit(MisfitReason.UNIT, detail="its kubelet does not support so many devices", resolvable=False),
        ),
    ],
)
def test_reserve_on_unusable_node_fails_with_unresolvable_reason(ledger, inventory, expected):
    ledger.put_node("n", inventory)
    with pytest.raises(MisfitError) as raised:
        ledger.reserve(P, "n", WANTS, Policy.BINPACK)
    assert raised.value.misfit == ledger.find_node("n").problem == expected


def test_reserve_on_unknown_node_fails_with_node_name(ledger):
    with pytest.raises(MisfitError) as raised:
        ledger.reserve(P, "z", WANTS, Policy.BINPACK)
    assert raised.value.misfit == Misfit(MisfitReason.UNKNOWN_NODE, detail="z", resolvable=False)
    assert (ledger.find_node("z"), ledger.find_holding(P.uid)) == (None, None)


def test_unknown_or_dropped_node_with_pods_has_unresolvable_problem(ledger):
    ledger.confirm(P, "z", Assignment({"c": (Share("a", 4),)}), WANTS.order)
    assert ledger.find_node("z").problem == Misfit(MisfitReason.UNKNOWN_NODE, resolvable=False)
    ledger.confirm(Q, "n", Assignment({"c": (Share("a", 4),)}), WANTS.order)
    ledger.drop_node("n")
    assert ledger.find_node("n").problem == Misfit(MisfitReason.UNKNOWN_NODE, resolvable=False)


def test_list_nodes_returns_known_nodes_and_nodes_with_pods_by_name(ledger):
    ledger.put_node("b", None)
    ledger.put_node("a", Inventory(1, ()))
    ledger.confirm_unassigned(UnassignedPod(P, "z", WANTS, "it has none"))
    assert [entry.name for entry in ledger.list_nodes()] == ["a", "b", "n", "z"]
    ledger.keep_nodes(["b"])
    assert [entry.name for entry in ledger.list_nodes()] == ["b", "z"]
    assert ledger.list_node_names() == ["", "b", "", "z"]
    assert [entry and entry.name for entry in map(ledger.find_node_at, range(4))] == [None, "b", None, "z"]


def test_row_of_dropped_node_is_reused():
    ledger = Ledger(unit_bytes=1)
    for number in range(1000):
        ledger.put_node(f"n{number}", Inventory(1, (CARD,)))
        ledger.drop_node(f"n{number}")
    assert (ledger.table.rows, list(ledger.list_nodes())) == (1, [])
    ledger.put_node("last", Inventory(1, (CARD,)))
    assert ledger.find_node("last").row == 0


def test_unknown_node_is_discarded_with_its_last_pod(ledger):
    ledger.confirm(P, "z", Assignment({"c": (Share("a", 4),)}), WANTS.order)
    ledger.confirm_unassigned(UnassignedPod(Q, "z", WANTS, "it has none"))
    ledger.release(P.uid)
    assert ledger.find_node("z") is not None
    ledger.release(Q.uid)
    assert (ledger.find_node("z"), ledger.list_node_names()) == (None, ["n", ""])


def test_ledger_counts_pods_and_release_returns_whether_pod_existed(ledger):
    ledger.reserve(P, "n", WANTS, Policy.BINPACK)
    ledger.confirm_unassigned(UnassignedPod(Q, "n", WANTS, "it has none"))
    assert len(ledger) == 2
    assert [ledger.release(Q.uid), ledger.release(Q.uid), ledger.release(P.uid)] == [True, False, True]
    assert (len(ledger), ledger.find_node("n").uses) == (0, {})


def test_stage_of_share_never_decreases(ledger):
    assert [each.value for each in ShareStage] == ["claimed", "reserved", "bound", "confirmed"]
    assignment = ledger.reserve(P, "n", WANTS, Policy.BINPACK)
    stages = [ledger.find_holding(P.uid).stage]
    ledger.accept(P.uid)
    stages.append(ledger.find_holding(P.uid).stage)
    for stage in (ShareStage.CONFIRMED, ShareStage.BOUND):
        ledger.confirm(P, "n", assignment, WANTS.order, stage)
        stages.append(ledger.find_holding(P.uid).stage)
    ledger.accept(P.uid)
    assert [*stages, ledger.find_holding(P.uid).stage] == [
        *(ShareStage.RESERVED, ShareStage.BOUND, ShareStage.CONFIRMED, ShareStage.CONFIRMED, ShareStage.CONFIRMED)
    ]


def test_unchanged_inventory_does_not_change_table(ledger):
    before = ledger.table.tick
    ledger.put_node("n", Inventory(1, (CARD,)))
    assert ledger.table.tick == before
    ledger.put_node("n", Inventory(1, (CARD, msgspec.structs.replace(CARD, id="b"))))
    assert ledger.table.tick == before + 1
    assert ledger.table.find_changed_rows(before).tolist() == [0]
    assert ledger.table.find_changed_rows(before + 1).tolist() == []


@pytest.mark.parametrize(
    ("cards", "held", "fraction"),
    [
        ((CARD,), 0, 0.0),
        ((CARD,), 4, 0.25),
        ((CARD,), 16, 1.0),
        ((CARD,), 40, 1.0),
        ((CARD, Card("b", "v", "m", 48)), 16, 0.25),
        ((msgspec.structs.replace(CARD, health=Health.UNHEALTHY),), 4, 0.25),
        ((Card("a", "v", "m", None),), 4, 0.0),
        ((), 4, 0.0),
    ],
)
def test_used_fraction_covers_memory_of_all_cards(ledger, cards, held, fraction):
    ledger.put_node("n", Inventory(1, cards))
    ledger.confirm(P, "n", Assignment({"c": (Share("a", held),)}), WANTS.order)
    assert ledger.table.used_fraction[0] == fraction


def test_unassigned_pod_is_charged_all_requested_amounts(ledger):
    containers = (ContainerRequest("c", Kind.APP, 2, 3, 100), ContainerRequest("d", Kind.APP, 1, 4, 50))
    pod = UnassignedPod(P, "n", PodRequest(containers), "it has none")
    assert (pod.memory_bytes, pod.compute, pod.whole) == (10, 150, False)
    ledger.confirm_unassigned(pod)
    (state,) = ledger.find_node("n").list_card_states()
    assert (state.free_bytes, state.free_compute, state.empty) == (6, 850, False)


def test_default_unit_is_one_gibibyte():
    assert DEFAULT_UNIT_BYTES == 1073741824


def refuse(ledger, request):
    with pytest.raises(MisfitError) as raised:
        ledger.reserve(make_ref("refused"), "n", request, Policy.BINPACK)
    return raised.value.misfit.reason


def free(ledger):
    return [state.free_bytes for state in ledger.find_node("n").list_card_states()]


def test_uncounted_amounts_of_inventory_are_not_free(ledger):
    shown = msgspec.structs.replace(build_inventory("a", "b"), uncounted=(Share("a", 6, 300),))
    ledger.put_node("n", shown)
    ledger.reserve(P, "n", WANTS, Policy.BINPACK)
    assert free(ledger) == [6, 16]
    assert [state.free_compute for state in ledger.find_node("n").list_card_states()] == [700, 1000]
    ledger.put_node("n", msgspec.structs.replace(shown, uncounted=(Share("a", 0, 0, whole=True),)))
    assert free(ledger) == [0, 16]
    ledger.put_node("n", msgspec.structs.replace(shown, uncounted=()))
    assert free(ledger) == [12, 16]


@pytest.mark.parametrize("unassigned", [False, True])
def test_excessive_amounts_fill_card_until_release(ledger, unassigned):
    for pod in (P, Q):
        if unassigned:
            ledger.confirm_unassigned(UnassignedPod(pod, "n", build_request(MAX_AMOUNT), "it has none"))
        else:
            ledger.confirm(pod, "n", Assignment({"c": (Share("a", MAX_AMOUNT),)}), WANTS.order)
    assert refuse(ledger, build_request(1)) is MisfitReason.MEMORY
    ledger.release(P.uid)
    ledger.release(Q.uid)
    assert free(ledger) == [16]


def test_unassigned_whole_card_blocks_all_empty_cards(ledger):
    ledger.put_node("n", build_inventory("a", "b"))
    ledger.confirm(P, "n", Assignment({"c": (Share("a", 4),)}), WANTS.order)
    ledger.confirm_unassigned(UnassignedPod(Q, "n", build_request(), "it has none"))
    assert free(ledger) == [12, 0]


@pytest.mark.parametrize("compute", [500, 0])
def test_unassigned_pod_without_memory_leaves_no_empty_card(ledger, compute):
    ledger.confirm_unassigned(UnassignedPod(P, "n", build_request(compute=compute, whole=False), "it has none"))
    assert refuse(ledger, build_request()) is MisfitReason.WHOLE_CARDS
    assert free(ledger) == [16]


def test_node_that_cannot_change_unit_accepts_shares_in_present_unit(ledger):
    ledger.put_node("n", Inventory(1, (CARD,), problem="too many devices", next_unit_bytes=2))
    assert ledger.reserve(P, "n", WANTS, Policy.BINPACK)
