"""The values of the stage report: the result of each stage on each node, and the summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.audit.comparison import AuditFinding
from accelkit.model.stage import NodeState, Outcome, Stage

REPORT_VERSION: Final = 1
# The best outcome is first. A skipped stage is treated as passed, because the stage that caused the skip reports the
# problem.
_EXIT_CODES: Final = {Outcome.PASS: 0, Outcome.SKIPPED: 0, Outcome.STALE: 3, Outcome.UNKNOWN: 3, Outcome.FAIL: 4}
_ORDER: Final = tuple(Outcome)


class Cell(msgspec.Struct, frozen=True):
    """The result of one stage on one node.

    Attributes:
        because: the stage that caused this stage to be skipped; None if this stage was not skipped.
        found_at: the time of the result in Unix seconds.
        seconds: the duration of the check.
        state: the state of the node for which the result is valid; None if the result was derived from current facts.
    """

    stage: Stage
    outcome: Outcome
    reason: str = ""
    evidence: str = ""
    next_action: str = ""
    because: Stage | None = None
    found_at: float = 0.0
    seconds: float = 0.0
    state: NodeState | None = None


class NodeReport(msgspec.Struct, frozen=True):
    """The results for one node, ordered by stage."""

    name: str
    state: NodeState
    stages: tuple[Cell, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of the node's stages."""
        return find_worst(cell.outcome for cell in self.stages)


class StageSummary(msgspec.Struct, frozen=True):
    """The number of nodes for each outcome of a stage, including outcomes that no node has."""

    stage: Stage
    counts: dict[Outcome, int]


class Accounting(msgspec.Struct, frozen=True):
    """The audit of the nodes' cards.

    Attributes:
        outcome: `fail` if there are differences, `unknown` if no comparison was possible.
        differences: the differences between ledger, assignments, kubelets and cards.
        notes: messages about comparisons that were not possible.
        problem: the reason why no comparison was possible; empty if comparisons were possible.
    """

    outcome: Outcome
    differences: tuple[AuditFinding, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The problem as a sentence, or a sentence for each difference."""
        if self.problem:
            return (f"unknown: {self.problem}",)
        return tuple(f"{each.kind}: {each.message}" for each in self.differences)


class StageReport(msgspec.Struct, frozen=True):
    """The report of a cluster.

    Attributes:
        server: the URL of the API server.
        accelkit: the version of accelkit that created the report.
        made_at: the creation time of the report in Unix seconds.
        outcome: the worst outcome.
        exit_code: 0, 3 or 4.
        summary: the summaries of the stages, in order.
        nodes: the nodes, ordered by name.
        accounting: the audit of the nodes' cards; None if it was not requested.
        context: the context of the kubeconfig; empty if no kubeconfig was used.
    """

    server: str
    accelkit: str
    made_at: float
    outcome: Outcome
    exit_code: int
    summary: tuple[StageSummary, ...]
    nodes: tuple[NodeReport, ...]
    version: int = REPORT_VERSION
    accounting: Accounting | None = None
    context: str = ""


def find_worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome; `pass` if there are no outcomes, or if each outcome is `pass` or `skipped`."""
    found = set(outcomes)
    worst = max(found, key=_ORDER.index, default=Outcome.PASS)
    return Outcome.PASS if worst is Outcome.SKIPPED and Outcome.PASS in found else worst


def find_exit_code(outcome: Outcome) -> int:
    """Return the exit code for this outcome."""
    return _EXIT_CODES[outcome]
