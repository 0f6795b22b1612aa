import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from accelkit.errors import PluginError, RequestError
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.fit import place
from accelkit.placement.plugged_policies import PluggedPolicy
from accelkit.placement.policies import Policy, choose_policy, score_node
from accelkit.plugins.policies import list_policy_names, load_policy
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.requests import read_request

CODE = """
ACCELKIT_INTERFACE = 1
def rank_card(card, node, request): return {rank}
def score_node(node, most): return {score}
"""
SMALLEST = {"rank": "card.card.capacity_bytes", "score": "most - len(node)"}
CARDS = (
    Card("large", "v", "m", 64, index=0),
    Card("small", "v", "m", 16, index=1),
    Card("other", "v", "m", 16, index=2),
)


@pytest.fixture
def plug(site):
    """Install a policy with these two expressions, and load it."""

    def plug(**expressions):
        site.install("acme", files={"acme.py": CODE.format(**{**SMALLEST, **expressions})}, policies="tight = acme")
        return load_policy("tight")

    return plug


def wants(memory, name="c", cards=1, **more):
    return ContainerRequest(name, Kind.APP, cards, memory, **more)


def states(*taken):
    held = dict(zip(("large", "small", "other"), taken, strict=False))
    return [
        CardState(each, each.memory_bytes - held.get(each.id, 0), 1000, empty=not held.get(each.id)) for each in CARDS
    ]


def chosen(policy, *containers, taken=()):
    found = place(states(*taken), PodRequest(containers), policy)
    assert isinstance(found, Assignment), found
    return [[share.card for share in shares] for shares in found.containers.values()]


def test_policy_names_include_plugins(site):
    assert list_policy_names() == [each.value for each in Policy]
    site.install("acme", files={"acme.py": "raise SystemExit"}, policies="tight = acme")
    assert list_policy_names() == [*(each.value for each in Policy), "tight"]
    assert load_policy("spread") is Policy.SPREAD


def test_plugin_policy_ranks_cards_and_ties_use_lowest_index(plug):
    tight = plug()
    assert chosen(tight, wants(4)) == [["small"]]
    assert chosen(tight, wants(4), taken=(60, 1, 0)) == [["small"]]
    assert chosen(Policy.BINPACK, wants(4), taken=(60, 1, 0)) == [["large"]]
    assert chosen(tight, wants(4, cards=2)) == [["small", "other"]]
    assert chosen(tight, wants(20)) == [["large"]]


def test_plugin_policy_receives_current_state_of_usable_cards(plug):
    last = plug(rank="(-sum(each.free_bytes for each in node) if len(node) == 3 else 0, card.free_bytes)[1]")
    assert chosen(last, wants(10, "a"), wants(10, "b")) == [["small"], ["other"]]
    empties = plug(rank="card.empty * 100 + card.free_compute")
    assert chosen(empties, wants(4, "a", compute=1), wants(4, "b")) == [["large"], ["large"]]
    counted = plug(rank="1 / (len(node) == 2)")
    bad = [*states()[:2], CardState(msgspec.structs.replace(CARDS[2], cordoned=True), 16, 1000, empty=True)]
    assert isinstance(place(bad, PodRequest((wants(4),)), counted), Assignment)


def test_container_cannot_select_plugin_policy(plug):
    tight = plug()
    assert chosen(tight, wants(4, policy="spread")) == [["large"]]
    assert choose_policy("", tight) is tight
    with pytest.raises(ValueError, match="tight"):
        choose_policy("tight", tight)
    container = SimpleNamespace(name="c", kind=Kind.APP, limits={"accelkit.io/memory": 4})
    named = {"accelkit.io/request": '{"c": {"policy": "tight"}}'}
    with pytest.raises(RequestError, match="policy 'tight' is not one of binpack, spread"):
        read_request([container], named, load_dialects(["native"]), 1)


@pytest.mark.parametrize(
    ("expressions", "problem"),
    [
        ({"rank": "1 / 0"}, "rank_card failed with ZeroDivisionError"),
        ({"rank": "'first'"}, "the rank 'first' is not a number"),
        ({"rank": "float('nan')"}, "the rank nan is not a number"),
        ({"rank": "None"}, "the rank None"),
        ({"rank": "card.card.memory_bytes / 2"}, "rank_card failed with TypeError"),
        ({"score": "11"}, "the score 11 is not a whole number from 0 to 10"),
        ({"score": "-1"}, "the score -1"),
        ({"score": "0.5"}, "the score 0.5"),
        ({"score": "node[7]"}, "score_node failed with IndexError"),
    ],
)
def test_plugin_policy_with_invalid_result_is_refused_on_load(plug, expressions, problem):
    with pytest.raises(PluginError) as raised:
        plug(**expressions)
    assert raised.value.message.startswith(f"cannot use policy tight of acme 1.0: {problem}")
    assert raised.value.next_step


@pytest.mark.parametrize("lacking", ["rank_card", "score_node"])
def test_plugin_policy_without_required_function_is_refused(site, lacking):
    code = CODE.format(**SMALLEST).replace(f"def {lacking}", "def something_else")
    site.install("acme", files={"acme.py": code}, policies="tight = acme")
    with pytest.raises(PluginError, match="is invalid: acme must define rank_card and score_node"):
        load_policy("tight")


def make_verbs(policy):
    ledger = Ledger(unit_bytes=1)
    for name, memory in (("small", 16), ("large", 64)):
        ledger.put_node(name, Inventory(1, (Card(f"{name}-a", "v", "m", memory),)))
    ledger.put_node("bare", None)
    return ledger, Verbs(ledger, LedgerFeed(ledger, load_dialects(["native"])), policy)


def args(memory=4, annotations=None):
    containers = [{"name": "c", "resources": {"limits": {"accelkit.io/memory": memory}}}]
    metadata = {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations or {}}
    body = {"Pod": {"metadata": metadata, "spec": {"containers": containers}}, "NodeNames": ["small", "large", "bare"]}
    return msgspec.convert(body, Args)


def test_nodes_are_rescored_by_plugin_policy_after_change(plug):
    tight = plug(score="min(most, round(most * sum(each.free_bytes for each in node) / 64))")
    ledger, verbs = make_verbs(tight)
    scores = lambda: {each.Host: each.Score for each in verbs.prioritize(args())}  # noqa: E731 - asked twice
    assert scores() == {"small": 2, "large": 10, "bare": 0}
    ledger.reserve(PodRef("d", "q", "q"), "large", PodRequest((wants(32),)), tight)
    assert scores() == {"small": 2, "large": 5, "bare": 0}
    own = {"accelkit.io/request": '{"c": {"policy": "binpack"}}'}
    assert {each.Host: each.Score for each in verbs.prioritize(args(annotations=own))} == {
        "small": 0,
        "large": score_node(Policy.BINPACK, 0.5),
        "bare": 0,
    }


def test_failing_plugin_policy_refuses_pod_and_reserves_nothing(plug):
    later = plug(rank="1 / (card.card.id != 'small-a')", score="len(node) // (node[0].card.id != 'small-a')")
    ledger, verbs = make_verbs(later)
    assert asyncio.run(verbs.filter(args())).NodeNames == ["small", "large"]
    with pytest.raises(PluginError, match=r"policy tight of acme 1\.0: score_node failed"):
        verbs.prioritize(args())
    with pytest.raises(
        PluginError, match=r"rank_card failed with ZeroDivisionError.*; report this to its maintainer, and use another"
    ):
        ledger.reserve(PodRef("d", "q", "q"), "small", PodRequest((wants(4),)), later)
    assert ledger.find_holding("q") is None
    assert ledger.reserve(PodRef("d", "q", "q"), "large", PodRequest((wants(4),)), later)


def test_plugin_policy_is_formatted_as_its_name(plug):
    tight = plug()
    assert isinstance(tight, PluggedPolicy)
    assert str(tight) == "tight"
