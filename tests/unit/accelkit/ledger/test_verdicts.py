import msgspec
import pytest
from support.requests import build_request

from accelkit.errors import InventoryError
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import _SHAPES, ShapeVerdicts
from accelkit.model.card import Card, Link
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import Policy

LINKED = build_request(4, cards=2, link="x")
P = PodRef("d", "p", "uid-p")
CARD = Card("a", "v", "m", 16)


def cards(*names, memory=16, **links):
    found = {name: tuple(Link(to, kind) for to, kind in links.get(name, ())) for name in names}
    return Inventory(1, tuple(Card(name, "v", "m", memory, links=found[name]) for name in names))


def setup(**nodes):
    ledger = Ledger(unit_bytes=1)
    for name, inventory in nodes.items():
        ledger.put_node(name, inventory)
    return ledger, ShapeVerdicts(ledger)


def judge(verdicts, request, budget=None):
    verdict = verdicts.judge(request, Policy.BINPACK)
    for _ in verdicts.judge_stale(verdict, list(verdict.stale), budget or Budget(10**6)):
        pass
    return verdict.fits, {name: verdict.reasons[number].reason for name, number in verdict.failing.items()}


def test_request_without_memory_fits_full_card_but_not_card_of_unknown_memory():
    ledger, verdicts = setup(full=cards("a"), blind=Inventory(1, (msgspec.structs.replace(CARD, memory_bytes=None),)))
    ledger.reserve(P, "full", build_request(16), Policy.BINPACK)
    assert judge(verdicts, build_request(whole=False)) == ({"full"}, {"blind": MisfitReason.MEMORY})
    placed = ledger.place(ledger.find_node("full"), build_request(whole=False), Policy.BINPACK)
    assert placed.containers["c"][0].card == "a"


def test_nodes_with_different_links_are_judged_separately():
    _, verdicts = setup(
        good=cards("a", "b", "c", a=[("b", "x")]),
        other=cards("a", "b", "c", a=[("b", "y")]),
        away=cards("a", "d", "c", a=[("b", "x")]),
    )
    assert judge(verdicts, LINKED) == ({"good"}, dict.fromkeys(["other", "away"], MisfitReason.CONSTRAINT))


def test_discarded_shape_is_judged_again():
    ledger, verdicts = setup(n=cards("a"))
    assert judge(verdicts, build_request(16)) == ({"n"}, {})
    ledger.reserve(P, "n", build_request(1), Policy.BINPACK)
    for memory in range(1, _SHAPES + 2):
        assert judge(verdicts, build_request(memory))[0] == ({"n"} if memory <= 15 else set())
    assert judge(verdicts, build_request(16)) == (set(), {"n": MisfitReason.MEMORY})


def test_number_of_shapes_is_bounded_and_last_used_shape_is_kept():
    _, verdicts = setup(n=cards("a"))
    for memory in range(1, _SHAPES + 5):
        judge(verdicts, build_request(memory))
        judge(verdicts, build_request(1))
        assert len(verdicts._shapes) == min(memory, _SHAPES)
    assert (build_request(1), Policy.BINPACK) in verdicts._shapes


@pytest.mark.parametrize(
    ("constraint", "fitting", "other"),
    [
        ({"model": "m"}, {"model": "m"}, {"model": "n"}),
        ({"numa": "single"}, {"numa": 0}, {"numa": None}),
        ({"allowed": (1,)}, {"index": 1}, {"index": 2}),
        ({"compute": 1}, {}, {"cordoned": True}),
    ],
)
def test_nodes_whose_cards_differ_in_one_property_are_judged_separately(constraint, fitting, other):
    request = build_request(4, **constraint)
    kinds = {"good": fitting, "bad": other}
    nodes = {name: Inventory(1, (msgspec.structs.replace(CARD, **more),)) for name, more in kinds.items()}
    _, verdicts = setup(**nodes)
    fits, failing = judge(verdicts, request)
    assert (fits, list(failing)) == ({"good"}, ["bad"])


def test_shape_judged_without_nodes_is_judged_on_later_nodes():
    ledger, verdicts = setup()
    assert judge(verdicts, build_request(10)) == (set(), {})
    ledger.put_node("n", cards("a"))
    ledger.put_node("m", None)
    assert judge(verdicts, build_request(10)) == ({"n"}, {"m": MisfitReason.NO_INVENTORY})


@pytest.mark.parametrize("request_", [build_request(10), LINKED])
def test_unused_reasons_are_dropped(request_):
    ledger, verdicts = setup(n=cards("a"), m=Inventory(1, ()), o=cards("a"))
    for turn in range(1000):
        ledger.put_node("o", InventoryError(f"garbled {turn}"))
        found = judge(verdicts, request_)
    kept = verdicts.judge(request_, Policy.BINPACK)
    assert len(kept.reasons) < 100
    assert kept.reasons[kept.failing["o"]].detail == "garbled 999"
    assert found == judge(ShapeVerdicts(ledger), request_)
