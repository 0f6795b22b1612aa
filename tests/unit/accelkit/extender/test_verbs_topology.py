"""prioritize where the best connected cards are sought: scores are of a node and of what a pod asks for."""

import json

import msgspec
import pytest
from support.pods import build_container, build_pod
from support.requests import build_request

from accelkit.extender import node_scores as module
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger import link_scores
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.placement.policies import MAX_SCORE, Policy
from accelkit.vendors.dialects import load_dialects

LETTERS = {"linked": "D", "switch": "S", "flat": "C"}


def build_verbs(policy=Policy.TOPOLOGY):
    ledger = Ledger(unit_bytes=1)
    for name, letter in LETTERS.items():
        rows = tuple("".join("X" if a == b else letter for b in range(4)) for a in range(4))
        ledger.put_node(name, Inventory(1, tuple(Card(card, "v", "m", 16) for card in "abcd"), topology=rows))
    return Verbs(ledger, LedgerFeed(ledger, load_dialects(["kubegpu", "native"])), policy), ledger


def prioritize(verbs, *limits, request=None):
    containers = [build_container(each, f"c{number}") for number, each in enumerate(limits)]
    annotations = {"accelkit.io/request": json.dumps(request)} if request else {}
    pod = build_pod("p", *containers, metadata={"annotations": annotations})
    args = msgspec.json.decode(json.dumps({"Pod": pod, "NodeNames": [*LETTERS, "stranger"]}), type=Args)
    found = {each.Host: each.Score for each in verbs.prioritize(args)}
    assert found.pop("stranger") == 0
    assert all(0 <= score <= MAX_SCORE for score in found.values())
    return found


def cards(count):
    return {"accelkit.io/cards": count}


def take(ledger, node, count=1):
    ledger.reserve(PodRef("d", node, node), node, build_request(cards=count), Policy.TOPOLOGY)


def test_better_connected_nodes_score_higher():
    verbs, _ = build_verbs()
    scores = prioritize(verbs, cards(2))
    assert scores["linked"] > scores["switch"] > scores["flat"]


def test_topology_scores_depend_on_card_count_and_free_cards():
    verbs, ledger = build_verbs()
    four, one = prioritize(verbs, cards(4)), prioritize(verbs, cards(1))
    assert four["linked"] == MAX_SCORE > one["linked"]
    take(ledger, "linked")
    assert prioritize(verbs, cards(4))["linked"] == 0
    assert prioritize(verbs, cards(3))["linked"] == MAX_SCORE
    assert prioritize(verbs, cards(1))["linked"] > one["linked"]


@pytest.mark.parametrize("named", ["c0", "c1"])
def test_any_container_can_request_the_topology_policy(named):
    verbs, ledger = build_verbs(Policy.BINPACK)
    take(ledger, "flat")
    assert max(prioritize(verbs, cards(1), cards(2)).items(), key=lambda each: each[1])[0] == "flat"
    scores = prioritize(verbs, cards(1), cards(2), request={named: {"policy": "topology"}})
    assert scores["linked"] > scores["flat"]


def test_kubegpu_pods_are_scored_by_topology_under_any_cluster_policy():
    verbs, _ = build_verbs(Policy.BINPACK)
    assert set(prioritize(verbs, cards(2)).values()) == {0}
    scores = prioritize(verbs, {"nvidia.com/gpu": 2})
    assert scores["linked"] > scores["switch"] > scores["flat"]


def test_nodes_beyond_the_step_limit_are_scored_by_usage_and_later_by_topology(monkeypatch):
    verbs, ledger = build_verbs()
    expected = prioritize(verbs, cards(3))
    monkeypatch.setattr(link_scores, "_STEPS", 2)
    verbs = Verbs(ledger, LedgerFeed(ledger, load_dialects(["native"])), Policy.TOPOLOGY)
    found = [prioritize(verbs, cards(3)) for _ in range(4)]
    # The three nodes are three states, and a call has steps for one.
    assert [sum(scores[node] == expected[node] for node in LETTERS if expected[node]) for scores in found[:2]] == [1, 2]
    assert found[2] == found[3] == expected
    assert found[0]["switch"] == found[0]["flat"] == 0


def test_topology_state_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(link_scores, "_MOST_STATES", 2)
    verbs, ledger = build_verbs()
    expected = prioritize(verbs, cards(2))
    take(ledger, "flat")
    assert prioritize(verbs, cards(2)) == {**expected, "flat": prioritize(build_verbs()[0], cards(2))["flat"] + 1}


def test_topology_score_cache_evicts_the_oldest_request(monkeypatch):
    monkeypatch.setattr(module, "_MOST_SHAPES", 2)
    verbs, _ = build_verbs()
    first = prioritize(verbs, cards(1))
    for count in (2, 3, 4):
        prioritize(verbs, cards(count))
        assert len(verbs._scores._kept) <= 2
    assert prioritize(verbs, cards(1)) == first
