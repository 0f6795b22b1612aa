import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pods import make_ref
from support.requests import build_inventory, build_request

from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.request import ContainerRequest, Kind, PodRequest, PodSelector
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.quota_amounts import QuotaAmounts
from accelkit.placement.sharing.rules import read_rules

WEB = PodSelector(("app=web",), "d")
OWN = PodSelector(("app=web",), "d", own=True)
LABELS = ("app=web", "pod=x")
ORDER = [("c", Kind.APP)]


def inventory(*names, memory=16):
    return Inventory(1, tuple(Card(name, "v", "m", memory) for name in names))


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", inventory("a", "b"))
    return ledger


def reserve(ledger, name, request, *, node="n", namespace="d", labels=()):
    placed = ledger.reserve(make_ref(name, namespace), node, request, Policy.BINPACK, labels)
    return placed.containers["c"][0].card


def refusal(ledger, name, request, **more):
    with pytest.raises(MisfitError) as raised:
        reserve(ledger, name, request, **more)
    return raised.value.misfit


def judge(verdicts, request):
    verdict = verdicts.judge(request, Policy.BINPACK)
    for _ in verdicts.judge_stale(verdict, list(verdict.stale), Budget(10**6)):
        pass
    return verdict.fits, {name: verdict.reasons[number].reason for name, number in verdict.failing.items()}


def quota(**limits):
    return read_rules({"quotas": [{"namespaces": ["d"], **limits}]})


def test_quota_counts_reserved_and_bound_pods(ledger):
    ledger.put_rules(quota(memory="10"))
    reserve(ledger, "p", build_request(4))
    ledger.confirm(make_ref("q"), "n", Assignment({"c": (Share("b", 4),)}), ORDER)
    assert ledger.namespaces.get_held("d") == QuotaAmounts(8)
    misfit = refusal(ledger, "r", build_request(3))
    assert (misfit.reason, misfit.resolvable) == (MisfitReason.QUOTA, False)
    assert "holds 8 B of its quota of 10 B" in misfit.detail
    # Another namespace has none, and the same pod again holds what it holds.
    reserve(ledger, "s", build_request(3), namespace="e")
    reserve(ledger, "p", build_request(4))
    ledger.release("uid-q")
    reserve(ledger, "r", build_request(3))
    assert ledger.namespaces.get_held("d") == QuotaAmounts(7)


def test_unassigned_pod_counts_toward_quota_by_its_request(ledger):
    ledger.put_rules(quota(memory="10", cards=1))
    asked = PodRequest((*build_request(8).containers, ContainerRequest("w", Kind.APP, 1, whole=True)))
    ledger.confirm_unassigned(UnassignedPod(make_ref("p"), "n", asked, "it has none"))
    assert ledger.namespaces.get_held("d") == QuotaAmounts(8, 1)
    assert ledger.judge_quota("d", build_request(3)).reason is MisfitReason.QUOTA
    assert ledger.judge_quota("d", build_request(3), without=["uid-p", "uid-nobody"]) is None
    # Its cards become known.
    ledger.confirm(make_ref("p"), "n", Assignment({"c": (Share("a", 8),)}), ORDER)
    assert ledger.namespaces.get_held("d") == QuotaAmounts(8)
    ledger.release("uid-p")
    assert ledger.namespaces.list_held() == {}


def test_namespace_is_retriable_if_held_amounts_decrease_after_quota_refusal(ledger):
    ledger.put_rules(quota(memory="10"))
    for name in "pq":
        reserve(ledger, name, build_request(4))
    ledger.release("uid-q")
    assert ledger.namespaces.retriable == set()
    reserve(ledger, "q", build_request(4))
    refusal(ledger, "r", build_request(4))
    ledger.release("uid-q")
    assert ledger.namespaces.retriable == {"d"}
    ledger.namespaces.retriable.clear()
    refusal(ledger, "s", build_request(8))
    ledger.put_rules(quota(memory="20"))
    assert ledger.namespaces.retriable == {"d"}


def test_replicas_with_apart_constraint_are_placed_on_different_cards(ledger):
    apart = build_request(2, apart=OWN)
    assert reserve(ledger, "p", apart, labels=LABELS) == "a"
    assert reserve(ledger, "q", apart, labels=LABELS) == "b"
    misfit = refusal(ledger, "r", apart, labels=LABELS)
    # Somebody who leaves would make room: preemption may help.
    assert (misfit.reason, misfit.detail, misfit.resolvable) == (MisfitReason.APART, "app=web", True)
    # It binds nobody else, and pods of another namespace are others.
    assert reserve(ledger, "s", build_request(2)) == "a"
    other = PodSelector(("app=web",), "e")
    assert reserve(ledger, "t", build_request(2, apart=other), namespace="e", labels=LABELS) == "a"


def test_first_pod_of_group_fits_any_card_and_later_pods_only_same_card(ledger):
    ledger.put_node("m", inventory("c"))
    beside = build_request(4, beside=OWN)
    assert reserve(ledger, "p", beside, labels=LABELS) == "a"
    misfit = refusal(ledger, "q", beside, node="m", labels=LABELS)
    assert (misfit.reason, misfit.detail, misfit.resolvable) == (MisfitReason.BESIDE, "app=web", False)
    assert reserve(ledger, "q", beside, labels=LABELS) == "a"
    assert ledger.namespaces.affinity_nodes == {"n"}
    for name in "pq":
        ledger.release(f"uid-{name}")
    assert ledger.namespaces.retriable == {"d"}
    assert reserve(ledger, "r", beside, node="m", labels=LABELS) == "c"


def test_pod_outside_its_own_selector_waits_for_selected_pod(ledger):
    assert refusal(ledger, "p", build_request(4, beside=WEB)).reason is MisfitReason.BESIDE
    reserve(ledger, "q", build_request(4, card_ids=frozenset({"b"})), labels=LABELS)
    assert ledger.namespaces.affinity_nodes == {"n"}
    assert reserve(ledger, "p", build_request(4, beside=WEB)) == "b"


def test_unassigned_pod_satisfies_neither_beside_nor_apart(ledger):
    ledger.confirm_unassigned(UnassignedPod(make_ref("p"), "n", build_request(1), "it has none", LABELS))
    assert refusal(ledger, "q", build_request(4, beside=OWN), labels=LABELS).reason is MisfitReason.BESIDE
    assert refusal(ledger, "q", build_request(4, apart=OWN), labels=LABELS).reason is MisfitReason.APART
    assert reserve(ledger, "q", build_request(4), labels=LABELS) == "a"


def test_verdict_follows_changed_pod_labels(ledger):
    verdicts, apart = ShapeVerdicts(ledger), build_request(16, apart=WEB, card_ids=frozenset({"b"}))
    held = Assignment({"c": (Share("b", 0),)})
    ledger.confirm(make_ref("p"), "n", held, ORDER)
    assert judge(verdicts, apart) == ({"n"}, {})
    ledger.confirm(make_ref("p"), "n", held, ORDER, labels=LABELS)
    assert judge(verdicts, apart) == (set(), {"n": MisfitReason.APART})
    ledger.confirm(make_ref("p"), "n", held, ORDER)
    assert judge(verdicts, apart) == ({"n"}, {})


def test_verdict_on_all_nodes_follows_first_pod_of_group(ledger):
    ledger.put_node("m", inventory("c"))
    verdicts, beside = ShapeVerdicts(ledger), build_request(4, beside=OWN)
    assert judge(verdicts, beside) == ({"n", "m"}, {})
    reserve(ledger, "p", beside, labels=LABELS)
    assert judge(verdicts, beside) == ({"n"}, {"m": MisfitReason.BESIDE})
    ledger.release("uid-p")
    assert judge(verdicts, beside) == ({"n", "m"}, {})


def test_selectors_are_resolved_correctly_beyond_cache_limit(ledger, monkeypatch):
    monkeypatch.setattr("accelkit.ledger.namespaces._MOST_SELECTORS", 2)
    reserve(ledger, "p", build_request(1), labels=LABELS)
    for number in range(5):
        selector = PodSelector((f"app={number}",), "d", own=True)
        assert ledger.resolve(build_request(4, beside=selector)) == build_request(4)
    assert ledger.resolve(build_request(4, beside=OWN)) == build_request(4, beside=OWN)


def test_reserved_cards_are_refused_to_pods_outside_reservation(ledger):
    rules = read_rules({"reservations": [{"name": "r", "cards": [{"ids": ["a"]}], "for": [{"namespaces": ["ml"]}]}]})
    closed = build_request(4, closed=frozenset({"r"}))
    verdicts = ShapeVerdicts(ledger)
    assert judge(verdicts, closed) == ({"n"}, {})
    ledger.put_rules(rules)
    assert reserve(ledger, "p", closed) == "b"
    assert reserve(ledger, "q", build_request(16)) == "a"
    ledger.release("uid-q")
    misfit = refusal(ledger, "q", build_request(16, closed=frozenset({"r"})))
    # b could be freed.
    assert (misfit.reason, misfit.resolvable) == (MisfitReason.RESERVED, True)
    ledger.put_node("m", build_inventory("a"))
    assert judge(verdicts, closed) == ({"n"}, {"m": MisfitReason.RESERVED})
    assert refusal(ledger, "q", closed, node="m").resolvable is False
    ledger.put_rules(read_rules(None))
    assert judge(verdicts, closed) == ({"n", "m"}, {})
    assert ledger.reserved_nodes == set()


@given(st.data())
def test_verdict_by_columns_matches_placement_with_reserved_cards(data):
    ledger = Ledger(unit_bytes=1)
    verdicts, nodes = ShapeVerdicts(ledger), "nmo"
    requests = [
        build_request(memory, closed=closed) for memory in (0, 6, 20) for closed in (frozenset(), frozenset({"r"}))
    ]
    for step in range(data.draw(st.integers(2, 8))):
        match data.draw(st.sampled_from(["node", "rules", "pod", "drop"])):
            case "node":
                names = data.draw(st.lists(st.sampled_from("abcd"), unique=True))
                ledger.put_node(data.draw(st.sampled_from(nodes)), inventory(*names))
            case "rules":
                some = {"nodes": [data.draw(st.sampled_from([*nodes, "*"]))], "count": data.draw(st.integers(1, 3))}
                rule = {"name": "r", "cards": [some], "for": [{"priority": 1}]}
                ledger.put_rules(read_rules({"reservations": [rule] if data.draw(st.booleans()) else []}))
            case "drop":
                ledger.drop_node(data.draw(st.sampled_from(nodes)))
            case "pod":
                name = data.draw(st.sampled_from(nodes))
                entry = ledger.find_node(name)
                if entry is not None and entry.list_cards():
                    card = data.draw(st.sampled_from([each.id for each in entry.list_cards()]))
                    ledger.confirm(make_ref(f"{step}"), name, Assignment({"c": (Share(card, 12),)}), ORDER)
        request = data.draw(st.sampled_from(requests))
        fits, failing = judge(verdicts, request)
        for entry in ledger.list_nodes():
            placed = ledger.place(entry, request, Policy.BINPACK)
            assert (entry.name in fits) == isinstance(placed, Assignment), entry.name
            if not isinstance(placed, Assignment):
                assert failing[entry.name] is placed.reason
