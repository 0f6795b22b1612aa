"""How the cards of nodes are connected: which are reserved, what is said of them, and which nodes fit and score."""

import pytest
from support.pods import make_ref
from support.requests import build_request

from accelkit.ledger.ledger import Ledger
from accelkit.ledger.link_scores import LinkScores
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.request import CardGroup, Near
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import MAX_SCORE, Policy

ROWS = {
    "quads": ["D" if a // 4 == b // 4 else "C" for a in range(8) for b in range(8)],
    "switched": ["W"] * 64,
    "flat": ["?"] * 64,
}


def inventory(kind, *, memory=16, **changes):
    rows = tuple("".join(ROWS[kind][8 * row : 8 * row + 8]) for row in range(8))
    facts = {"vendor": "v", "model": "m", "memory_bytes": memory}
    cards = tuple(Card(name, **facts | changes.get(name, {})) for name in "abcdefgh")
    return Inventory(1, cards, topology=rows)


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    for name in ROWS:
        ledger.put_node(name, inventory(name))
    return ledger


def reserve(ledger, name, node, request, policy=Policy.TOPOLOGY):
    found = ledger.reserve(make_ref(name), node, request, policy)
    return "".join(share.card for share in found.containers["c"])


def score(ledger, node, request):
    entry = ledger.find_node(node)
    return LinkScores(request).score(entry, float(ledger.table.used_fraction[entry.row]))


def test_linked_cards_are_reserved_under_topology_policy_of_cluster_or_pod(ledger):
    reserve(ledger, "p", "quads", build_request(cards=1))
    assert reserve(ledger, "q", "quads", build_request(cards=4)) == "efgh"
    ledger.release("uid-q")
    assert reserve(ledger, "q", "quads", build_request(cards=4), Policy.BINPACK) == "bcde"
    ledger.release("uid-q")
    assert reserve(ledger, "q", "quads", build_request(cards=4, policy="topology"), Policy.BINPACK) == "efgh"


def test_describe_holding_reports_connections_of_reserved_cards(ledger):
    reserve(ledger, "p", "quads", build_request(cards=5))
    assert ledger.describe_holding("uid-p")["links"] == {"c": {"link": 6, "other NUMA node": 4}}
    reserve(ledger, "q", "flat", build_request(cards=1))
    assert set(ledger.describe_holding("uid-q")) == {"containers"}
    assert ledger.describe_holding("uid-nobody") == {"containers": {}}


def test_cards_missing_from_inventory_have_no_connections(ledger):
    shares = tuple(Share(card, 1) for card in ("a", "gone", "b"))
    assignment = Assignment({"c": shares, MOVING: shares})
    assert ledger.find_node("quads").describe_links(assignment) == {"c": {"link": 1}}
    ledger.put_node("none", None)
    assert ledger.find_node("none").describe_links(assignment) == {}


def test_connections_change_with_inventory(ledger):
    before = ledger.find_node("quads").find_links()
    reserve(ledger, "p", "quads", build_request(cards=1))
    assert ledger.find_node("quads").find_links() is before
    ledger.put_node("quads", inventory("switched"))
    assert ledger.find_node("quads").find_links() is ledger.find_node("switched").find_links() is not before


def judge(ledger, request):
    verdicts = ShapeVerdicts(ledger)
    verdict = verdicts.judge(request, Policy.TOPOLOGY)
    for _ in verdicts.judge_stale(verdict, list(verdict.stale), Budget(10**6)):
        pass
    return verdict.fits, {name: verdict.reasons[number] for name, number in verdict.failing.items()}


def test_nodes_with_different_connections_are_judged_separately(ledger):
    near = build_request(cards=4, groups=(CardGroup(Near.SWITCH, (0,) * 4),))
    reserve(ledger, "p", "quads", build_request(cards=1))
    fits, failing = judge(ledger, near)
    assert fits == {"quads", "switched"}
    assert (failing["flat"].reason, failing["flat"].resolvable) == (MisfitReason.CONSTRAINT, False)
    reserve(ledger, "q", "quads", near)
    fits, failing = judge(ledger, near)
    assert fits == {"switched"}
    assert failing["quads"].resolvable


def test_too_small_cards_and_held_cards_have_different_misfits(ledger):
    ledger.put_node("large", inventory("flat", memory=32))
    fits, failing = judge(ledger, build_request(cards=8, min_memory_bytes=32))
    assert fits == {"large"}
    assert {(each.reason, each.detail) for each in failing.values()} == {(MisfitReason.CARD_MEMORY, "32 B")}
    reserve(ledger, "p", "large", build_request(cards=1))
    assert judge(ledger, build_request(cards=8, min_memory_bytes=32))[1]["large"].reason is MisfitReason.WHOLE_CARDS


def test_nodes_score_by_the_cards_that_fit_the_request(ledger):
    assert score(ledger, "switched", build_request(cards=4)) > score(ledger, "flat", build_request(cards=4))
    ledger.put_node("other", inventory("quads", b={"model": "x"}, c={"cordoned": True}))
    best = score(ledger, "quads", build_request(cards=4))
    assert score(ledger, "other", build_request(cards=4)) == best
    assert score(ledger, "other", build_request(cards=1, model="x")) > 0
    assert score(ledger, "other", build_request(cards=2, model="x")) == 0
    ledger.put_node("ill", inventory("quads", **{name: {"health": Health.UNHEALTHY} for name in "aefgh"}))
    assert score(ledger, "ill", build_request(cards=4)) == 0
    assert score(ledger, "ill", build_request(cards=3)) == MAX_SCORE


NEAR_A_NIC = {name: {"nic": "S"} for name in "efgh"}


def test_nodes_with_cards_near_nic_score_higher_if_preferred(ledger):
    ledger.put_node("nics", inventory("flat", **NEAR_A_NIC))
    wish = {name: score(ledger, name, build_request(cards=4, nic=True)) for name in ("nics", *ROWS)}
    plain = {name: score(ledger, name, build_request(cards=4)) for name in ("nics", *ROWS)}
    assert max(wish, key=wish.get) == "nics"
    assert plain["quads"] > plain["nics"] == plain["flat"]
    # Among those that do not have them, the order is that of before.
    assert (wish["quads"] > wish["switched"] > wish["flat"]) == (plain["quads"] > plain["switched"] > plain["flat"])


def test_only_free_cards_near_nic_satisfy_preference(ledger):
    ledger.put_node("nics", inventory("quads", **NEAR_A_NIC))
    granted = score(ledger, "nics", build_request(cards=4, nic=True))
    assert reserve(ledger, "p", "nics", build_request(cards=1, nic=True)) == "e"
    assert score(ledger, "nics", build_request(cards=4, nic=True)) < MAX_SCORE / 2 <= granted
    assert score(ledger, "nics", build_request(cards=3, nic=True)) >= MAX_SCORE / 2


def test_nic_preference_raises_score_without_topology(ledger):
    facts = {"vendor": "v", "model": "m", "memory_bytes": 16}
    for name, nic in (("near", "H"), ("far", "C"), ("unknown", "")):
        ledger.put_node(name, Inventory(1, (Card("a", **facts, nic=nic),)))
    scores = {name: score(ledger, name, build_request(cards=1, nic=True)) for name in ("near", "far", "unknown")}
    assert scores["near"] > scores["far"] == scores["unknown"]
    # Of a node that is full the wish is no reason to take it.
    reserve(ledger, "p", "near", build_request(cards=1))
    assert score(ledger, "near", build_request(cards=1, nic=True)) < MAX_SCORE / 2


@pytest.mark.parametrize(
    ("more", "fits"),
    [({"min_memory_bytes": 17}, False), ({"allowed": frozenset({9})}, False), ({"denied": frozenset({1})}, True)],
)
def test_node_without_allowed_cards_scores_zero(ledger, more, fits):
    assert (score(ledger, "quads", build_request(cards=2, **more)) > 0) is fits


def test_memory_shares_score_by_cards_with_enough_free_memory(ledger):
    assert score(ledger, "quads", build_request(8, cards=2)) > 0
    assert score(ledger, "quads", build_request(17, cards=2)) == 0
    assert score(ledger, "quads", build_request(8, 1001, cards=2)) == 0
    before = score(ledger, "quads", build_request(4))
    reserve(ledger, "p", "quads", build_request(4))
    assert score(ledger, "quads", build_request(4)) > before


def test_node_without_topology_scores_by_used_fraction():
    ledger = Ledger()
    ledger.put_node("n", Inventory(1, tuple(Card(f"{number}", "v", "m", 16) for number in range(200))))
    assert score(ledger, "n", build_request(cards=2)) == 0
    reserve(ledger, "p", "n", build_request(cards=100))
    assert score(ledger, "n", build_request(cards=2)) > 0
