import asyncio
import json
import time
from datetime import UTC, datetime
from itertools import count

import msgspec
import pytest
from preempting_cluster import MEMORY, PreemptingCluster

from accelkit.errors import BadArgsError
from accelkit.extender.preemption.verb import ANSWER_SECONDS, PreemptVerb
from accelkit.extender.preemption.wire import PreemptionArgs
from accelkit.extender.simulation import event_loop_share as turns
from accelkit.model.keys import CHECK_RUN_ANNOTATION
from accelkit.model.object_meta import LEAVING_MARGIN_SECONDS
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules

JANUARY = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def cluster():
    made = PreemptingCluster("n")
    for name, priority, card in (("p", 1, "a"), ("q", 3, "a"), ("r", 2, "b"), ("s", 4, "b")):
        made.pod(name, 4, priority, card, requests={"cpu": "1"})
    return made


def ask(cluster, pod, victims, *, violations=0, whole=False, clock=time.monotonic, later=0):
    """Who leaves which node, and how many budgets that would violate."""
    if whole:
        listed = {
            node: {"Pods": [{"metadata": {"uid": f"uid-{name}"}} for name in names], "NumPDBViolations": violations}
            for node, names in victims.items()
        }
        body = {"Pod": pod, "NodeNameToVictims": listed, "NodeNameToMetaVictims": None}
    else:
        listed = {
            node: {"Pods": [{"UID": f"uid-{name}"} for name in names], "NumPDBViolations": violations}
            for node, names in victims.items()
        }
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": listed}
    verb = PreemptVerb(cluster.ledger, cluster.feed, Policy.BINPACK, clock, lambda: JANUARY + later)
    result = asyncio.run(verb.preempt(msgspec.json.decode(json.dumps(body), type=PreemptionArgs)))
    found = json.loads(msgspec.json.encode(result))["NodeNameToMetaVictims"]
    return {
        node: ([each["UID"].removeprefix("uid-") for each in of["Pods"]], of["NumPDBViolations"])
        for node, of in found.items()
    }


@pytest.mark.parametrize("whole", [False, True])
def test_victims_that_free_a_card_are_kept(cluster, whole):
    high = cluster.pod("high", 8, 10)
    assert ask(cluster, high, {"n": ["q", "p"]}, violations=1, whole=whole) == {"n": (["q", "p"], 1)}


def test_victims_on_different_cards_are_exchanged_for_victims_on_one_card(cluster):
    high = cluster.pod("high", 8, 10)
    # The highest priority stands in front, as kube-scheduler reads it; whether q is protected is not known.
    assert ask(cluster, high, {"n": ["r", "p"]}) == {"n": (["q", "p"], 1)}
    assert ask(cluster, high, {"n": ["r", "p"]}, violations=2) == {"n": (["q", "p"], 2)}
    # A victim without cards stays.
    assert ask(cluster, high, {"n": ["cpu", "r", "p"]}) == {"n": (["cpu", "q", "p"], 1)}


@pytest.mark.parametrize(
    "more",
    [
        {"requests": {"cpu": "7"}},
        {"requests": {"cpu": "1", "example.com/nic": "1"}},
        {"spec": {"affinity": {"podAntiAffinity": {}}}},
        {"spec": {"topologySpreadConstraints": [{}]}},
        {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}},
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {MEMORY: "8"}}, "ports": [{"hostPort": 1}]}]}},
    ],
)
def test_victims_of_kube_scheduler_are_kept_if_pod_has_other_constraints(cluster, more):
    high = cluster.pod("high", 8, 10, **more)
    names, violations = ask(cluster, high, {"n": ["r", "p"]})["n"]
    assert (set(names), violations) == ({"r", "p", "q"}, 1)


def test_static_pods_are_not_chosen_as_victims(cluster):
    cluster.pod("q", 4, 3, "a", annotations={"kubernetes.io/config.mirror": "x"})
    high = cluster.pod("high", 8, 10)
    assert ask(cluster, high, {"n": ["r", "p"]}) == {"n": (["s", "r"], 1)}


def test_node_is_omitted_if_no_eviction_frees_a_card(cluster):
    assert ask(cluster, cluster.pod("large", 9, 10), {"n": ["s", "q", "r", "p"]}) == {}
    # q and s are not below it.
    assert ask(cluster, cluster.pod("third", 8, 3), {"n": ["r", "p"]}) == {}
    high = cluster.pod("high", 8, 10)
    assert ask(cluster, high, {"unknown": ["p"], "n": []}) == {}


def test_preempt_omits_nodes_for_pod_with_reserved_cards(cluster):
    high = cluster.pod("high", 4, 10)
    cluster.leave("p")
    pending = cluster.feed.pending["uid-high"]
    cluster.ledger.reserve(pending.pod.ref, "n", pending.request, Policy.BINPACK)
    assert ask(cluster, high, {"n": ["q", "p"]}) == {}


@pytest.mark.parametrize("annotations", [{"accelkit.io/request": "{"}, {CHECK_RUN_ANNOTATION: "run"}])
def test_preempt_omits_nodes_for_ungrantable_requests_and_check_pods(cluster, annotations):
    assert ask(cluster, cluster.pod("high", 8, 10, annotations=annotations), {"n": ["q", "p"]}) == {}


def test_preempt_omits_nodes_for_pod_over_quota(cluster):
    high = cluster.pod("high", 8, 10)
    cluster.feed.take_rules(read_rules({"quotas": [{"namespaces": ["d"], "memory": 16}]}))
    assert ask(cluster, high, {"n": ["q", "p"]}) == {}


def ask_about_many(clock):
    """How many of twelve nodes are answered."""
    names = [f"n{number}" for number in range(12)]
    cluster = PreemptingCluster(*names)
    for name in names:
        cluster.pod(f"low-{name}", 8, 1, "a", node=name)
    return len(ask(cluster, cluster.pod("high", 8, 10), {name: [f"low-{name}"] for name in names}, clock=clock))


def test_preempt_returns_nodes_searched_before_the_deadline():
    reads = count()
    assert ask_about_many(lambda: 0.0) == 12
    # Each look at the clock is a quarter of the time later.
    assert ask_about_many(lambda: next(reads) * ANSWER_SECONDS / 4) == 4
    # One node is always searched.
    assert ask_about_many(lambda: next(reads) * ANSWER_SECONDS) == 1


def test_preempt_yields_to_event_loop_between_searches_without_delay(monkeypatch):
    pauses, times = [], count()

    async def pause(seconds):
        pauses.append(seconds)

    # Each turn takes a second.
    monkeypatch.setattr(turns.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(turns.asyncio, "sleep", pause)
    ask_about_many(lambda: 0.0)
    assert set(pauses) == {0}
    # After each node, and after each question: whether the pod fits once the victims are gone.
    assert len(pauses) == 2 * 12


def test_all_victims_are_kept_for_pod_without_cards(cluster):
    bare = {"metadata": {"name": "x", "namespace": "d", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
    assert ask(cluster, bare, {"n": ["q"]}, violations=1) == {"n": (["q"], 1)}


@pytest.mark.parametrize(
    "body", [{"Pod": {"metadata": {}}, "NodeNameToMetaVictims": {}}, {"Pod": {"metadata": {"uid": "u"}}}]
)
def test_preempt_names_missing_argument(cluster, body):
    verb = PreemptVerb(cluster.ledger, cluster.feed, Policy.BINPACK)
    with pytest.raises(BadArgsError, match="missing"):
        asyncio.run(verb.preempt(msgspec.json.decode(json.dumps(body), type=PreemptionArgs)))


def test_terminating_pods_are_not_victims_and_their_cards_count_as_free():
    cluster = PreemptingCluster("n")
    ending = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    cluster.pod("going", 6, 1, "a", **ending)
    cluster.pod("lowest", 2, 0, "a")
    cluster.pod("p", 4, 1, "b", **ending)
    cluster.pod("q", 4, 1, "b")
    high = cluster.pod("high", 8, 10)
    # On either card one is leaving already, so that one more is enough.
    assert ask(cluster, high, {"n": ["cpu"]}) == {"n": (["cpu", "lowest"], 1)}
    # Where they are enough, the pod waits for them.
    assert ask(cluster, cluster.pod("mid", 6, 10), {"n": ["lowest"]}) == {}
    # Where others may be needed for something else, these leave.
    fussy = cluster.pod("fussy", 6, 10, spec={"affinity": {"podAntiAffinity": {}}})
    assert ask(cluster, fussy, {"n": ["lowest"]}) == {"n": (["lowest"], 0)}


def test_cards_of_pod_stuck_terminating_do_not_count_as_free(cluster):
    cluster.pod("p", 4, 1, "a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    high, late = cluster.pod("high", 8, 10), LEAVING_MARGIN_SECONDS
    assert ask(cluster, high, {"n": ["q", "p"]}, later=late - 1) == {"n": (["q", "p"], 0)}
    # Others free a card instead.
    assert ask(cluster, high, {"n": ["q", "p"]}, later=late) == {"n": (["s", "r"], 2)}
