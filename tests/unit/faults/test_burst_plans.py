"""A burst is wrong where an account is wrong for a moment or in the end, or where its pods do not run in time."""

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from faults import bursts
from faults.bursts import Burst, clean_up, count_room, find_process
from faults.facts import WHOLE, Card, Container, Facts, Ledger, LedgerShare, Node, Pod
from faults.reading import UnreadableError

from accelkit.sandbox.processes import Identity

MEMORY, UNIT = "accelkit.io/memory", 2**30
ALIAS = "=card"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that every look at it moves on by a quarter of a second."""
    now = itertools.count()
    monkeypatch.setattr(bursts.time, "monotonic", lambda: next(now) / 4)
    monkeypatch.setattr(bursts.time, "sleep", lambda _seconds: None)


class Api:
    def __init__(self):
        self.lists = iter([[], []])

    def copy(self):
        return self

    def close(self):
        pass

    def ask(self, method, _path, body=None):
        if method == "DELETE":
            return {"items": next(self.lists)}
        name = body["metadata"]["name"]
        return {"metadata": {"uid": f"uid-{name}", "name": name}}

    def get(self, _path):
        return {"items": []}


def make_facts(count, *, capacity=16, bound=True, phase="Running", reason=""):
    containers = (Container(name="main", kind="app", memory=1, resources={MEMORY: 1}),)
    pods = tuple(
        Pod(
            namespace="default",
            name=f"burst-{at}",
            uid=f"uid-burst-{at}",
            containers=containers,
            node="node-1" if bound else "",
            phase=phase if bound else "Pending",
            reason=reason,
            assigned={"main": {"card": UNIT}} if bound else None,
        )
        for at in range(count)
    )
    node = Node(
        name="node-1",
        cards={"card": Card(id="card", capacity=capacity * UNIT)},
        unit=UNIT,
        allocatable={MEMORY: capacity, "pods": 110},
    )
    holding = [pod for pod in pods if pod.holds]
    shares = tuple(
        LedgerShare(node="node-1", card="card", uid=pod.uid, pod=pod.path, container="main", amount=UNIT, bound=True)
        for pod in holding
    )
    given = {pod.uid: {"main": {MEMORY: (f"{ALIAS}::{at}",)}} for at, pod in enumerate(holding)}
    ledger = Ledger(shares=shares, used={}, capacity={("node-1", "card"): capacity * UNIT})
    return Facts(pods=pods, nodes={"node-1": node}, given={"node-1": given}, ledger=ledger)


class Cluster:
    exact_kubelets = True

    def __init__(self, *facts, findings=()):
        self.api = Api()
        self._facts = itertools.chain(facts, itertools.repeat(facts[-1]))
        self.reader = SimpleNamespace(read=self._read)
        self._findings = findings

    def _read(self):
        facts = next(self._facts)
        if facts is None:
            raise UnreadableError("paused")
        return facts

    def audit(self):
        return self._findings


def run(*facts, pods=3, pause=None, findings=()):
    burst = Burst(Cluster(*facts, findings=findings), pods, pause)
    return burst.run(), burst.wrong


def test_consistent_burst_reports_no_violation():
    line, wrong = run(make_facts(3, bound=False), None, make_facts(3))
    assert wrong == []
    assert line.startswith("3 pods, bound after ")
    assert line.endswith("refused: 0, checker: 0 violations, audit: 0 findings")


def test_final_card_overcommit_is_reported():
    line, wrong = run(make_facts(3, capacity=2))
    assert any(each.startswith("checker: assigned_over_capacity") for each in wrong)
    assert any(each.startswith("at some time: given_over_capacity") for each in wrong)
    assert "audit: 0 findings" in line


def test_temporary_card_overcommit_is_reported():
    _, wrong = run(*[make_facts(3, capacity=2)] * 20, make_facts(3))
    assert [each.partition(" node")[0] for each in wrong] == ["at some time: given_over_capacity"]


def test_lost_pod_of_burst_is_reported():
    _, wrong = run(make_facts(3), make_facts(3), make_facts(2))
    assert any("pod_lost" in each for each in wrong)


def test_audit_finding_of_burst_is_reported():
    _, wrong = run(make_facts(3), findings=[{"kind": "over_capacity", "message": "17 of 16"}])
    assert wrong == ["audit: over_capacity: 17 of 16"]


def test_unbound_pods_of_burst_are_reported():
    _, wrong = run(make_facts(3, capacity=0, bound=False))
    assert "not after 600 s: all pods are bound" in wrong


def test_kubelet_refusals_are_accepted_after_process_is_paused():
    stopped = []
    facts = make_facts(3, phase="Failed", reason="UnexpectedAdmissionError")
    _, wrong = run(make_facts(3, bound=False), facts, pause=lambda: stopped.append(True))
    assert (stopped, wrong) == ([True], [])
    assert run(facts)[1] == ["kubelets refused 3 pods although nothing was broken"]


def test_clean_up_deletes_pods_of_burst_until_none_remain():
    cluster = Cluster(make_facts(0))
    cluster.api.lists = iter([[{}], [{}], []])
    clean_up(cluster)
    assert next(cluster.api.lists, None) is None
    cluster.api.lists = itertools.repeat([{}])
    with pytest.raises(UnreadableError, match="not gone after 600 s"):
        clean_up(cluster)


def test_find_process_matches_program_or_word_of_command(monkeypatch, tmp_path):
    ours = Identity(os.getpid(), 1)
    monkeypatch.setattr(bursts, "find_sandbox_processes", lambda _root: [ours])
    assert find_process(tmp_path, Path(sys.orig_argv[0]).name) == ours
    with pytest.raises(UnreadableError, match="0 processes"):
        find_process(tmp_path, "no-such-word")
    monkeypatch.setattr(bursts, "find_sandbox_processes", lambda _root: [ours, ours])
    with pytest.raises(UnreadableError, match="2 processes"):
        find_process(tmp_path, Path(sys.orig_argv[0]).name)


def test_count_room_subtracts_cards_held_by_pods():
    facts = make_facts(3)
    assert count_room(facts) == 13
    (pod, *_) = facts.pods
    for assigned, room in (({"card": WHOLE}, 0), ({"card": UNIT // 2}, 15), ({"other": UNIT}, 16)):
        assert count_room(replace(facts, pods=(replace(pod, assigned={"main": assigned}),))) == room
    assert count_room(make_facts(3, phase="Succeeded")) == 16
    node = replace(facts.nodes["node-1"], schedulable=False)
    assert count_room(replace(facts, nodes={"node-1": node})) == 0
