from __future__ import annotations

import msgspec
import pytest

from accelkit.errors import InventoryError
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import _SHAPES, ShapeVerdicts
from accelkit.model.card import Card, Link
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import Policy

LINKED = PodRequest((ContainerRequest("c", Kind.APP, 2, 4, link="x"),))
P = PodRef("d", "p", "uid-p")
CARD = Card("a", "v", "m", 16)


def simple(memory, cards=1):
    return PodRequest((ContainerRequest("c", Kind.APP, cards, memory),))


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


def test_a_kept_verdict_follows_reservations_and_releases():
    ledger, verdicts = setup(n=cards("a"), m=cards("a"))
    assert judge(verdicts, simple(10)) == ({"n", "m"}, {})
    ledger.reserve(P, "n", simple(10), Policy.BINPACK)
    assert judge(verdicts, simple(10)) == ({"m"}, {"n": MisfitReason.MEMORY})
    ledger.release(P.uid)
    assert judge(verdicts, simple(10)) == ({"n", "m"}, {})


def test_a_kept_verdict_follows_nodes_that_come_fail_and_go():
    ledger, verdicts = setup(n=cards("a"))
    assert judge(verdicts, simple(10)) == ({"n"}, {})
    ledger.put_node("m", cards("a", "b", "c"))
    ledger.put_node("n", InventoryError("garbled"))
    assert judge(verdicts, simple(10)) == ({"m"}, {"n": MisfitReason.BAD_INVENTORY})
    ledger.drop_node("m")
    assert judge(verdicts, simple(10)) == (set(), {"n": MisfitReason.BAD_INVENTORY})


def test_a_request_for_no_memory_fits_a_card_that_is_full_and_none_whose_memory_is_not_known():
    ledger, verdicts = setup(full=cards("a"), blind=Inventory(1, (msgspec.structs.replace(CARD, memory_bytes=None),)))
    ledger.reserve(P, "full", simple(16), Policy.BINPACK)
    assert judge(verdicts, simple(0)) == ({"full"}, {"blind": MisfitReason.MEMORY})
    placed = ledger.place(ledger.find_node("full"), simple(0), Policy.BINPACK)
    assert placed.containers["c"][0].card == "a"


def test_more_cards_than_any_node_has_fit_nowhere():
    _, verdicts = setup(n=cards("a"))
    verdict = verdicts.judge(simple(1, cards=9), Policy.BINPACK)
    assert [verdict.reasons[number].resolvable for number in verdict.failing.values()] == [False]


def test_nodes_that_differ_in_their_links_alone_are_judged_apart():
    _, verdicts = setup(
        good=cards("a", "b", "c", a=[("b", "x")]),
        other=cards("a", "b", "c", a=[("b", "y")]),
        away=cards("a", "d", "c", a=[("b", "x")]),
    )
    assert judge(verdicts, LINKED) == ({"good"}, dict.fromkeys(["other", "away"], MisfitReason.CONSTRAINT))


def test_a_kept_verdict_follows_links_that_change():
    ledger, verdicts = setup(n=cards("a", "b", a=[("b", "y")]))
    assert judge(verdicts, LINKED) == (set(), {"n": MisfitReason.CONSTRAINT})
    ledger.put_node("n", cards("a", "b", a=[("b", "x")]))
    assert judge(verdicts, LINKED) == ({"n"}, {})


def test_a_shape_that_was_forgotten_is_judged_afresh():
    ledger, verdicts = setup(n=cards("a"))
    assert judge(verdicts, simple(16)) == ({"n"}, {})
    ledger.reserve(P, "n", simple(1), Policy.BINPACK)
    for memory in range(1, _SHAPES + 2):
        assert judge(verdicts, simple(memory))[0] == ({"n"} if memory <= 15 else set())
    assert judge(verdicts, simple(16)) == (set(), {"n": MisfitReason.MEMORY})


def test_as_many_shapes_are_kept_as_fit_and_the_one_asked_about_last_stays():
    _, verdicts = setup(n=cards("a"))
    for memory in range(1, _SHAPES + 5):
        judge(verdicts, simple(memory))
        judge(verdicts, simple(1))
        assert len(verdicts._shapes) == min(memory, _SHAPES)
    assert (simple(1), Policy.BINPACK) in verdicts._shapes


def test_a_misfit_of_several_cards_says_how_many():
    _, verdicts = setup(n=cards("a", "b"))
    verdict = verdicts.judge(simple(17, cards=2), Policy.BINPACK)
    misfit = verdict.reasons[verdict.failing["n"]]
    assert (misfit.reason, misfit.cards, misfit.resolvable) == (MisfitReason.MEMORY_CARDS, 2, False)


@pytest.mark.parametrize(
    ("constraint", "fitting", "other"),
    [
        ({"model": "m"}, {"model": "m"}, {"model": "n"}),
        ({"numa": "single"}, {"numa": 0}, {"numa": None}),
        ({"allowed": (1,)}, {"index": 1}, {"index": 2}),
        ({"compute": 1}, {}, {"cordoned": True}),
    ],
)
def test_nodes_whose_cards_differ_in_one_property_are_judged_apart(constraint, fitting, other):
    request = PodRequest((ContainerRequest("c", Kind.APP, 1, 4, **constraint),))
    kinds = {"good": fitting, "bad": other}
    nodes = {name: Inventory(1, (msgspec.structs.replace(CARD, **more),)) for name, more in kinds.items()}
    _, verdicts = setup(**nodes)
    fits, failing = judge(verdicts, request)
    assert (fits, list(failing)) == ({"good"}, ["bad"])


def test_a_kept_verdict_forgets_what_failed_on_every_node():
    ledger, verdicts = setup(n=cards("a"))
    ledger.reserve(P, "n", simple(10), Policy.BINPACK)
    assert judge(verdicts, simple(10)) == (set(), {"n": MisfitReason.MEMORY})
    ledger.release(P.uid)
    assert judge(verdicts, simple(10)) == ({"n"}, {})


def test_a_shape_asked_about_before_there_was_a_node_is_judged_on_the_nodes_that_come():
    ledger, verdicts = setup()
    assert judge(verdicts, simple(10)) == (set(), {})
    ledger.put_node("n", cards("a"))
    ledger.put_node("m", None)
    assert judge(verdicts, simple(10)) == ({"n"}, {"m": MisfitReason.NO_INVENTORY})


@pytest.mark.parametrize(
    ("request_", "reason", "resolvable"),
    [
        (simple(10), MisfitReason.MEMORY, True),
        (simple(17), MisfitReason.MEMORY, False),
        (simple(10, cards=2), MisfitReason.MEMORY_CARDS, False),
        (PodRequest((ContainerRequest("c", Kind.APP, 1, whole=True),)), MisfitReason.WHOLE_CARDS, True),
        (PodRequest((ContainerRequest("c", Kind.APP, 2, whole=True),)), MisfitReason.WHOLE_CARDS, False),
    ],
)
def test_what_others_keep_out_is_resolvable_and_what_the_node_lacks_is_not(request_, reason, resolvable):
    ledger, verdicts = setup(n=cards("a"))
    ledger.reserve(P, "n", simple(10), Policy.BINPACK)
    verdict = verdicts.judge(request_, Policy.BINPACK)
    misfit = verdict.reasons[verdict.failing["n"]]
    assert (misfit.reason, misfit.cards, misfit.resolvable) == (reason, request_.containers[0].cards, resolvable)


def test_many_nodes_are_judged_one_by_one():
    ledger, verdicts = setup(**{f"n{number}": cards("a", memory=number) for number in range(100)})
    fits, failing = judge(verdicts, simple(40))
    assert fits == {f"n{number}" for number in range(40, 100)}
    assert set(failing) == {f"n{number}" for number in range(40)}
    assert ledger.list_node_names() == [f"n{number}" for number in range(100)]


@pytest.mark.parametrize("request_", [simple(10), LINKED])
def test_reasons_that_no_node_fails_for_any_more_are_dropped(request_):
    ledger, verdicts = setup(n=cards("a"), m=Inventory(1, ()), o=cards("a"))
    for turn in range(1000):
        ledger.put_node("o", InventoryError(f"garbled {turn}"))
        found = judge(verdicts, request_)
    kept = verdicts.judge(request_, Policy.BINPACK)
    assert len(kept.reasons) < 100
    assert kept.reasons[kept.failing["o"]].detail == "garbled 999"
    assert found == judge(ShapeVerdicts(ledger), request_)
