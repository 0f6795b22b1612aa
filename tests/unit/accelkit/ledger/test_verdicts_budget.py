"""Requests that only a search can judge: within a budget for all nodes, in turns, and never wrong for it afterwards."""

import pytest
from support.requests import build_inventory

from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy

NODES = 300
TOO_COMPLEX = Misfit(MisfitReason.TOO_COMPLEX, resolvable=False)
P = PodRef("d", "p", "uid-p")


def plain(*memory):
    return PodRequest(tuple(ContainerRequest(f"{n}", Kind.APP, 1, each) for n, each in enumerate(memory)))


ODD = plain(3, 5)


@pytest.fixture
def ledger():
    found = Ledger(unit_bytes=1)
    for node in range(NODES):
        cards = (Card(f"{node}-{card}", "v", "m", 80 + node * 8 + card, index=card) for card in range(8))
        found.put_node(f"n{node}", Inventory(1, tuple(cards)))
    return found


@pytest.fixture
def verdicts(ledger):
    return ShapeVerdicts(ledger)


def judge(verdicts, request, budget, names=None):
    verdict = verdicts.judge(request, Policy.BINPACK)
    turns = sum(1 for _ in verdicts.judge_stale(verdict, names or [f"n{node}" for node in range(NODES)], budget))
    return verdict, turns


def reason(verdict, name):
    return verdict.reasons[verdict.failing[name]]


@pytest.mark.parametrize("request_", [plain(*[70] * 19), plain(*range(60, 79))])
def test_request_of_19_containers_is_judged_on_300_nodes_within_budget(verdicts, request_):
    budget = Budget(20_000 + 16 * NODES)
    verdict, turns = judge(verdicts, request_, budget)
    assert not verdict.stale
    assert not budget.is_spent()
    assert len(verdict.fits) + len(verdict.failing) == NODES
    assert turns > 10


def test_nodes_beyond_budget_are_too_complex_until_next_call(verdicts):
    verdict, _ = judge(verdicts, ODD, Budget(20))
    assert len(verdict.fits) == 10
    assert {reason(verdict, name) for name in verdict.failing} == {TOO_COMPLEX}
    assert verdict.stale == set(verdict.failing)
    verdict, _ = judge(verdicts, ODD, Budget(600))
    assert (len(verdict.fits), verdict.failing, verdict.stale) == (NODES, {}, set())


def test_only_requested_nodes_are_judged(verdicts):
    budget = Budget(100)
    verdict, _ = judge(verdicts, ODD, budget, ["n3", "stranger"])
    assert (verdict.fits, verdict.failing) == ({"n3"}, {})
    assert budget.steps == 98


def test_former_verdict_of_changed_node_is_dropped_if_budget_is_spent(ledger, verdicts):
    assert "n3" in judge(verdicts, ODD, Budget(10_000))[0].fits
    ledger.reserve(P, "n3", plain(104), Policy.BINPACK)
    verdict, _ = judge(verdicts, ODD, Budget(0))
    assert len(verdict.fits) == NODES - 1
    assert reason(verdict, "n3") == TOO_COMPLEX
    assert "n3" in judge(verdicts, ODD, Budget(10))[0].fits


def test_nodes_that_change_between_turns_are_judged_again_at_the_next_call(ledger, verdicts):
    verdict = verdicts.judge(ODD, Policy.BINPACK)
    turns = verdicts.judge_stale(verdict, ["n0", *(f"n{node}" for node in range(1, NODES))], Budget(10_000))
    next(turns)
    assert "n0" in verdict.fits
    ledger.put_node("n0", build_inventory("a", memory=4))
    ledger.put_node("n299", build_inventory("a", memory=4))
    assert all(turn is None for turn in turns)
    # One was judged before it changed, the other after.
    assert "n0" in verdict.fits
    assert reason(verdict, "n299").reason is MisfitReason.MEMORY
    verdict, _ = judge(verdicts, ODD, Budget(10))
    assert reason(verdict, "n0").reason is MisfitReason.MEMORY
    assert len(verdict.fits) == NODES - 2


def test_concurrent_callers_of_one_shape_judge_each_node_once(verdicts):
    verdict = verdicts.judge(ODD, Policy.BINPACK)
    names, budgets = [f"n{node}" for node in range(NODES)], [Budget(10_000), Budget(10_000)]
    callers = [verdicts.judge_stale(verdicts.judge(ODD, Policy.BINPACK), names, budget) for budget in budgets]
    while callers:
        callers = [caller for caller in callers if next(caller, "end") != "end"]
    assert len(verdict.fits) == NODES
    assert sum(10_000 - budget.steps for budget in budgets) == 2 * NODES


def test_simple_requests_are_judged_without_search(verdicts):
    verdict = verdicts.judge(plain(3), Policy.BINPACK)
    assert (len(verdict.fits), verdict.stale) == (NODES, set())


def test_too_complex_request_on_full_node_is_unresolvable(ledger, verdicts):
    verdict, _ = judge(verdicts, plain(*[1] * 129), Budget(1000))
    assert set(map(verdict.reasons.__getitem__, verdict.failing.values())) == {TOO_COMPLEX}
    assert not verdict.stale
