import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pods import build_container, build_pod
from support.requests import build_inventory, build_request

from accelkit.errors import BadArgsError, RequestError
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import PodRef
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

NATIVE, GCU = "accelkit.io/memory", "enflame.com/gcu-memory"
FULL = {NATIVE: "insufficient accelkit.io/memory in one card", GCU: "insufficient GCU Memory in one gcu device"}
ALL = ["empty", "half", "full", "bare", "stranger"]


@pytest.fixture
def verbs():
    return make_verbs()


def make_verbs(policy=Policy.BINPACK):
    ledger = Ledger(unit_bytes=1)
    for name in ("empty", "half", "full"):
        ledger.put_node(name, build_inventory("a"))
    ledger.put_node("bare", None)
    for name, memory in (("half", 8), ("full", 16)):
        ledger.reserve(PodRef("d", name, name), name, build_request(memory), Policy.BINPACK)
    dialects = load_dialects(["native", "gcushare"])
    return Verbs(ledger, LedgerFeed(ledger, dialects), policy)


def pod(memory=4, resource=NATIVE, *, uid="u", request=None):
    annotations = {"accelkit.io/request": json.dumps(request)} if request else {}
    limits = {resource: memory} if memory else {}
    return build_pod("p", build_container(limits), metadata={"uid": uid, "annotations": annotations})


def args(names=ALL, whole=False, **of_pod):
    items = [{"metadata": {"name": name, "labels": {"kept": "as it is"}}} for name in names]
    nodes = {"Nodes": {"items": items}} if whole else {"NodeNames": list(names)}
    return msgspec.json.decode(json.dumps({"Pod": pod(**of_pod), **nodes}), type=Args)


def decide(verbs, args):
    return asyncio.run(verbs.filter(args))


def encoded(result):
    return json.loads(msgspec.json.encode(result))


@pytest.mark.parametrize("resource", [NATIVE, GCU])
def test_full_card_is_explained_in_the_dialect_of_the_pod(verbs, resource):
    result = decide(verbs, args(["empty", "half", "full"], memory=10, resource=resource))
    assert result.NodeNames == ["empty"]
    assert result.FailedNodes == {"half": FULL[resource], "full": FULL[resource]}
    assert result.FailedAndUnresolvableNodes is None


@pytest.mark.parametrize("resource", [NATIVE, GCU])
def test_request_larger_than_any_card_is_unresolvable(verbs, resource):
    result = decide(verbs, args(["empty", "half"], memory=20, resource=resource))
    assert result.NodeNames == []
    assert result.FailedNodes == result.FailedAndUnresolvableNodes == dict.fromkeys(["empty", "half"], FULL[resource])


def test_each_node_has_its_own_reason_and_unshared_node_is_unresolvable(verbs):
    result = decide(verbs, args(memory=10))
    assert result.NodeNames == ["empty"]
    assert result.FailedNodes == {
        "half": FULL[NATIVE],
        "full": FULL[NATIVE],
        "bare": "node has no accelkit inventory",
        "stranger": "node is unknown to accelkit",
    }
    assert result.FailedAndUnresolvableNodes == {"bare": "node has no accelkit inventory"}


def test_fitting_node_objects_are_returned_unchanged(verbs):
    result = encoded(decide(verbs, args(["full", "empty", "half"], whole=True, memory=10)))
    assert result["Nodes"] == {"items": [{"metadata": {"name": "empty", "labels": {"kept": "as it is"}}}]}
    assert "NodeNames" not in result
    assert set(result["FailedNodes"]) == {"full", "half"}


def test_filter_keeps_the_order_of_the_nodes(verbs):
    assert decide(verbs, args(["half", "empty"])).NodeNames == ["half", "empty"]


@pytest.mark.parametrize("whole", [False, True])
def test_pod_without_cards_passes_on_every_node(verbs, whole):
    result = encoded(decide(verbs, args(whole=whole, memory=0)))
    names = [node["metadata"]["name"] for node in result["Nodes"]["items"]] if whole else result["NodeNames"]
    assert names == ALL
    assert "FailedNodes" not in result


@pytest.mark.parametrize("whole", [False, True])
def test_ungrantable_request_is_unresolvable_on_every_node(verbs, whole):
    result = decide(verbs, args(["empty", "bare"], whole=whole, request={"c": {"split": 3}}))
    assert encoded(result)["Nodes" if whole else "NodeNames"] == ({"items": []} if whole else [])
    assert set(result.FailedNodes) == {"empty", "bare"}
    assert result.FailedNodes == result.FailedAndUnresolvableNodes
    assert "cannot be split evenly over 3 cards" in result.FailedNodes["empty"]


@pytest.mark.parametrize("whole", [False, True])
def test_reserved_pod_passes_only_on_its_node(verbs, whole):
    result = decide(verbs, args(["empty", "full"], whole=whole, memory=16, uid="full"))
    answer = encoded(result)
    assert ([n["metadata"]["name"] for n in answer["Nodes"]["items"]] if whole else answer["NodeNames"]) == ["full"]
    assert result.FailedNodes == {"empty": "pod is reserved on node full until the result of its Binding is known"}
    assert result.FailedAndUnresolvableNodes is None


def test_long_reason_is_truncated(verbs, monkeypatch):
    found = verbs._feed.read_pending(args().Pod)
    refused = Pending(found.pod, None, RequestError("x" * 3000))
    monkeypatch.setattr(type(verbs._feed), "read_pending", lambda *_: refused)
    (reason,) = set(decide(verbs, args(["empty", "bare"])).FailedNodes.values())
    assert (len(reason), reason[-2:]) == (500, "x…")


def test_empty_node_list_is_not_an_error(verbs):
    assert encoded(decide(verbs, args([]))) == {"NodeNames": []}


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"Pod": pod(uid=""), "NodeNames": []}, "Pod.metadata.uid is missing"),
        ({"Pod": pod()}, "both Nodes and NodeNames are missing"),
        ({"Pod": pod(), "NodeNames": None, "Nodes": None}, "both Nodes and NodeNames are missing"),
        ({"Pod": pod(), "Nodes": {"items": [{"metadata": 1}]}}, "Nodes.items"),
        ({"Pod": pod(), "Nodes": {"items": [{}]}}, "Nodes.items"),
    ],
)
def test_missing_or_invalid_argument_is_named(verbs, verb, wrong, sentence):
    decoded = msgspec.json.decode(json.dumps(wrong), type=Args)
    with pytest.raises(BadArgsError, match=sentence):
        decide(verbs, decoded) if verb == "filter" else verbs.prioritize(decoded)


@given(st.lists(st.sampled_from([*ALL, "another"]), unique=True), st.sampled_from([0, 4, 10, 17]))
def test_filter_answers_exactly_the_nodes_in_the_request(names, memory):
    result = decide(make_verbs(), args(names, memory=memory))
    failed = result.FailedNodes or {}
    assert sorted([*result.NodeNames, *failed]) == sorted(names)
    assert set(result.FailedAndUnresolvableNodes or ()) <= set(failed)


@pytest.mark.parametrize(("policy", "order"), [("binpack", "empty half full"), ("spread", "full half empty")])
def test_nodes_are_scored_by_policy_of_cluster_or_pod(policy, order):
    own = {"request": {"c": {"policy": policy}}}
    for verbs, of_pod in ((make_verbs(Policy(policy)), {}), (make_verbs(), own)):
        scores = {each.Host: each.Score for each in verbs.prioritize(args(order.split(), **of_pod))}
        assert list(scores) == sorted(scores, key=scores.get)
        assert len(set(scores.values())) == 3


def test_unknown_nodes_and_pods_without_cards_score_zero(verbs):
    assert {each.Host: each.Score for each in verbs.prioritize(args(["stranger", "full"]))} == {
        "stranger": 0,
        "full": 10,
    }
    assert {each.Score for each in verbs.prioritize(args(memory=0))} == {0}
    assert {each.Score for each in verbs.prioritize(args(request={"c": {"split": 3}}))} == {0}


def test_scores_follow_the_ledger(verbs):
    assert verbs.prioritize(args(["full"]))[0].Score == 10
    verbs._ledger.release("full")
    assert verbs.prioritize(args(["full"]))[0].Score == 0


async def test_filter_yields_to_event_loop_while_searching_many_nodes():
    ledger = Ledger(unit_bytes=1)
    for number in range(200):
        ledger.put_node(f"n{number}", build_inventory("a", memory=16 + number))
    verbs = Verbs(ledger, LedgerFeed(ledger, load_dialects(["native"])), Policy.BINPACK)
    turns = 0

    async def serve_others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(serve_others())
    two = pod()
    two["spec"]["containers"].append({"name": "d", "resources": {"limits": {NATIVE: 4}}})
    asked = {"Pod": two, "NodeNames": [f"n{number}" for number in range(200)]}
    result = await verbs.filter(msgspec.json.decode(json.dumps(asked), type=Args))
    others.cancel()
    assert len(result.NodeNames) == 200
    assert turns >= 4
