from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelkit.extender.groups import reserving
from accelkit.extender.groups.reserving import GroupReserver, Shortage, UnplacedPod
from accelkit.ledger.claims import reserve
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.host_amounts import NOTHING, HostAmounts
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.mix import TaskMix
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules


def ledger_of(*nodes):
    ledger = Ledger(unit_bytes=1)
    for number, cards in enumerate(nodes):
        ledger.put_node(f"n{number}", Inventory(1, tuple(Card(str(card), "v", "m", 16) for card in range(cards))))
    return ledger


def reserver_of(ledger, *, allowed=None, policy=Policy.BINPACK):
    names = {entry.name for entry in ledger.list_nodes()} if allowed is None else allowed
    return GroupReserver(ledger, TaskMix(), policy, lambda *_: set(names))


def wanted(name, memory=8, *, cards=1, whole=False, host=NOTHING, node="", model=""):
    container = ContainerRequest("c", Kind.APP, cards, 0 if whole else memory, whole=whole, model=model)
    return UnplacedPod(PodRef("d", name, name), PodRequest((container,)), None, host, b"[]", node)


def held(ledger):
    return {held.pod.name: entry.name for entry in ledger.list_nodes() for held in entry.holdings.values()}


def test_largest_pod_is_placed_first_so_that_all_fit():
    ledger = ledger_of(1, 1)
    small = [wanted(f"s{number}", 8) for number in range(2)]
    reserver_of(ledger, policy=Policy.SPREAD).reserve([*small, wanted("large", 16)], 3)
    found = held(ledger)
    assert len(found) == 3
    assert found["s0"] == found["s1"] != found["large"]


def test_shortage_leaves_no_reservations():
    ledger = ledger_of(1)
    assert reserver_of(ledger).reserve([wanted(name) for name in "abc"], 3) == Shortage(2, PodRef("d", "c", "c"))
    assert (held(ledger), ledger.find_node("n0").uses) == ({}, {})


def test_pod_with_assigned_node_must_be_part_of_reservation():
    ledger = ledger_of(1, 1)
    ledger.reserve(PodRef("d", "x", "x"), "n0", wanted("x", 16).request, Policy.BINPACK)
    shortage = reserver_of(ledger).reserve([wanted("a"), wanted("b", node="n0")], 1)
    assert shortage.first.name == "b"
    assert held(ledger) == {"x": "n0"}


def test_nodes_excluded_by_rules_are_not_used():
    ledger = ledger_of(1, 1)
    assert len(reserver_of(ledger, allowed={"n1"}).reserve([wanted("a")], 1)) == 1
    assert held(ledger) == {"a": "n1"}


def test_pod_with_rules_that_exceed_budget_is_reported_as_unjudged():
    ledger = ledger_of(1)
    reserver = GroupReserver(ledger, TaskMix(), Policy.BINPACK, lambda *_: None)
    assert reserver.reserve([wanted("a")], 1) == Shortage(0, PodRef("d", "a", "a"), unjudged=True)


def test_distinct_rules_of_one_group_share_one_budget(monkeypatch):
    monkeypatch.setattr(reserving, "_RULE_STEPS", 5)
    ledger, asked = ledger_of(1), []

    def list_allowed(rules, budget):
        asked.append(rules)
        budget.steps -= 2
        return {"n0"} if budget.steps >= 0 else None

    reserver = GroupReserver(ledger, TaskMix(), Policy.BINPACK, list_allowed)
    pods = [replace(wanted(str(number), 1), rules=str(number // 2).encode()) for number in range(8)]
    assert len(reserver.reserve(pods, 1)) == 4
    # Each is judged once.
    assert sorted(asked) == [b"0", b"1", b"2", b"3"]


def test_node_is_not_tried_for_pod_beyond_quota(monkeypatch):
    ledger, asked = ledger_of(*[1] * 9), []
    ledger.put_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": 8}]}))
    monkeypatch.setattr(reserving, "reserve", lambda *args, **options: (asked.append(1), reserve(*args, **options))[1])
    assert reserver_of(ledger).reserve([wanted("a"), wanted("b")], 2) == Shortage(1, PodRef("d", "b", "b"))
    assert len(asked) == 1


def test_host_amounts_include_existing_promises():
    ledger = ledger_of(4, 4)
    for name in ("n0", "n1"):
        ledger.note_host(name, HostAmounts(2000, 100))
    host = HostAmounts(1000, 10)
    pods = [wanted(str(number), 1, host=host) for number in range(4)]
    assert isinstance(reserver_of(ledger).reserve(pods, 4, {"n0": host}), Shortage)
    assert len(reserver_of(ledger).reserve(pods, 3, {"n0": host})) == 3
    assert sorted(held(ledger).values()) == ["n0", "n1", "n1"]


def test_requests_that_require_search_are_placed():
    ledger = ledger_of(2, 2)
    assert len(reserver_of(ledger).reserve([wanted(str(each), 16, model="m") for each in range(4)], 4)) == 4
    assert isinstance(reserver_of(ledger).reserve([wanted("x", 1, model="other")], 1), Shortage)


def test_more_pods_than_shortlist_nodes_are_placed():
    ledger = ledger_of(*[1] * 100)
    pods = [wanted(str(number)) for number in range(200)]
    assert len(reserver_of(ledger).reserve(pods, 200)) == 200
    assert isinstance(reserver_of(ledger).reserve([wanted("more")], 1), Shortage)


def test_move_that_does_not_fit_changes_nothing():
    ledger = ledger_of(1, 1)
    reserver = reserver_of(ledger)
    reserver.reserve([wanted("a", node="n0"), wanted("b", 16, node="n1")], 2)
    assert not reserver.move(PodRef("d", "a", "a"), wanted("a").request, "n1")
    assert held(ledger) == {"a": "n0", "b": "n1"}
    # Nor where the node would not take it anew.
    before = ledger.find_holding("a")
    ledger.put_node("n0", None)
    assert not reserver.move(PodRef("d", "a", "a"), wanted("a").request, "n1")
    assert ledger.find_holding("a") == before
    ledger.release("b")
    assert reserver.move(PodRef("d", "a", "a"), wanted("a").request, "n1")
    assert held(ledger) == {"a": "n1"}


@pytest.mark.parametrize("policy", [Policy.BINPACK, Policy.SPREAD])
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 2)), min_size=1, max_size=8),
    st.integers(1, 8),
)
def test_minimum_number_of_pods_or_no_pod_is_reserved(policy, nodes, pods, least):
    ledger = ledger_of(*nodes)
    asked = [wanted(str(number), memory, cards=cards) for number, (memory, cards) in enumerate(pods)]
    done = reserver_of(ledger, policy=policy).reserve(asked, min(least, len(asked)))
    found = held(ledger)
    if isinstance(done, Shortage):
        assert found == {}
    else:
        assert len(found) == len(done) >= min(least, len(asked))
    for entry in ledger.list_nodes():
        assert all(use.used_bytes <= 16 for use in entry.uses.values())
