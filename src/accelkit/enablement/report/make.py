"""Creation of a cluster's stage report from the facts about its nodes.

The texts in results are read from annotations, pods and objects that other clients can write. Therefore, this module
truncates and sanitizes the texts for all formats. Each format escapes its special characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from accelkit import __version__
from accelkit.enablement.facts.node_facts import ClusterFacts, list_node_facts
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason
from accelkit.enablement.report.values import (
    Accounting,
    Cell,
    NodeReport,
    StageReport,
    StageSummary,
    find_exit_code,
    find_worst,
)
from accelkit.enablement.stages.judging import find_cause, judge_node, skip_for
from accelkit.model.stage import MAX_EVIDENCE, NodeState, Outcome, Stage, StageResult
from accelkit.texts import shorten

_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")
_UNNAMED: Final = "Unnamed"
# The end of the year 9999.
_LATEST: Final = 253402300799.0
_LONGEST_SECONDS: Final = 86400.0


def make_report(cluster: ClusterFacts, *, server: str, context: str = "", now: float) -> StageReport:
    """Evaluate every node, and return the report.

    Args:
        cluster: the facts about the cluster.
        server: the URL of the API server.
        context: the context of the kubeconfig; empty if no kubeconfig is used.
        now: Unix seconds.
    """
    nodes = [] if isinstance(cluster.nodes, Unread) else list(_judge_all(cluster, now))
    absent = sorted(cluster.named - {node.name for node in nodes})
    nodes += [_report_absent(name, cluster, now) for name in absent]
    outcome = find_worst(node.outcome for node in nodes)
    return StageReport(
        server=server,
        accelkit=__version__,
        made_at=now,
        outcome=outcome,
        exit_code=find_exit_code(outcome),
        summary=tuple(_summarize(nodes)),
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        context=shorten(context, MAX_EVIDENCE),
    )


def add_accounting(report: StageReport, found: Accounting) -> StageReport:
    """Return a report that includes the result of the audit of the nodes' cards."""
    outcome = find_worst((report.outcome, found.outcome))
    clean = Accounting(
        found.outcome,
        tuple(msgspec.structs.replace(each, message=shorten(each.message, MAX_EVIDENCE)) for each in found.differences),
        tuple(shorten(note, MAX_EVIDENCE) for note in found.notes),
        shorten(found.problem, MAX_EVIDENCE),
    )
    return msgspec.structs.replace(report, outcome=outcome, exit_code=find_exit_code(outcome), accounting=clean)


def _judge_all(cluster: ClusterFacts, now: float) -> list[NodeReport]:
    return [_report_node(facts.name, facts.state, judge_node(facts, now=now)) for facts in list_node_facts(cluster)]


def _report_absent(name: str, cluster: ClusterFacts, now: float) -> NodeReport:
    """Return the report for a requested node that the API server does not return."""
    if isinstance(cluster.nodes, Unread):
        outcome, reason = Outcome.UNKNOWN, StageReason.NODES_UNREAD
        evidence = f"the nodes cannot be listed: {cluster.nodes.why}"
    else:
        outcome, reason = Outcome.FAIL, StageReason.NODE_MISSING
        evidence = "the cluster has no node with this name"
    first = StageResult(
        outcome, reason, evidence, NEXT_ACTIONS[reason].format(node=name, namespace=cluster.namespace), now
    )
    results = {stage: first if stage is Stage.DISCOVER else skip_for(Stage.DISCOVER, first) for stage in Stage}
    return _report_node(name, NodeState(), results)


def _report_node(name: str, state: NodeState, results: Mapping[Stage, StageResult]) -> NodeReport:
    cells = (_make_cell(stage, result, find_cause(stage, results)) for stage, result in results.items())
    return NodeReport(name, state, tuple(cells))


def _make_cell(stage: Stage, result: StageResult, because: Stage | None) -> Cell:
    # A client that writes the annotation may omit the reason or write arbitrary text.
    reason = result.reason if _REASON.fullmatch(result.reason) else _UNNAMED
    return Cell(
        stage=stage,
        outcome=result.outcome,
        reason="" if result.outcome is Outcome.PASS else reason,
        evidence=shorten(result.evidence, MAX_EVIDENCE),
        next_action="" if result.outcome is Outcome.PASS else shorten(result.next_action, MAX_EVIDENCE),
        because=because,
        # Dates outside this range cannot be formatted.
        found_at=result.found_at if 0.0 <= result.found_at <= _LATEST else 0.0,
        seconds=min(max(0.0, result.seconds), _LONGEST_SECONDS),
        state=None if result.state is None else _clean_state(result.state),
    )


def _clean_state(state: NodeState) -> NodeState:
    return NodeState(**{name: shorten(text) for name, text in msgspec.structs.asdict(state).items()})


def _summarize(nodes: list[NodeReport]) -> list[StageSummary]:
    counts = {stage: Counter[Outcome]() for stage in Stage}
    for node in nodes:
        for cell in node.stages:
            counts[cell.stage][cell.outcome] += 1
    return [StageSummary(stage, {each: found[each] for each in Outcome}) for stage, found in counts.items()]
