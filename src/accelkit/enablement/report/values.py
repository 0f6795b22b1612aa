"""The stage report as a value: what each stage found on each node, and what that comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.audit.comparison import AuditFinding
from accelkit.model.stage import NodeState, Outcome, Stage

REPORT_VERSION: Final = 1
# The best first. Left out is as good as passed: what it was left out for is told by the stage that is to blame.
_EXIT_CODES: Final = {Outcome.PASS: 0, Outcome.SKIPPED: 0, Outcome.STALE: 3, Outcome.UNKNOWN: 3, Outcome.FAIL: 4}
_ORDER: Final = tuple(Outcome)


class Cell(msgspec.Struct, frozen=True):
    """One stage on one node.

    Attributes:
        because: the stage that is to blame, where this one was left out for it; else None.
        found_at: Unix seconds.
        seconds: how long the check took.
        state: the one it holds for; None where it was judged from what is there now.
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
    """One node; `stages` in their order."""

    name: str
    state: NodeState
    stages: tuple[Cell, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of its stages."""
        return find_worst(cell.outcome for cell in self.stages)


class StageSummary(msgspec.Struct, frozen=True):
    """How many nodes a stage ended how on; every outcome is there."""

    stage: Stage
    counts: dict[Outcome, int]


class Accounting(msgspec.Struct, frozen=True):
    """The audit of the nodes' cards.

    Attributes:
        outcome: `fail` where something differs, `unknown` where nothing could be compared.
        differences: between ledger, assignments, kubelets and cards.
        notes: what could not be compared.
        problem: why nothing could be compared.
    """

    outcome: Outcome
    differences: tuple[AuditFinding, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is not in order, each with its kind."""
        if self.problem:
            return (f"unknown: {self.problem}",)
        return tuple(f"{each.kind}: {each.message}" for each in self.differences)


class StageReport(msgspec.Struct, frozen=True):
    """A cluster.

    Attributes:
        server: URL of the API server.
        accelkit: the version that made it.
        made_at: Unix seconds.
        outcome: the worst of all.
        exit_code: 0, 3 or 4.
        summary: by stage, in their order.
        nodes: by name.
        accounting: the audit of their cards; None where it was not asked for.
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


def find_worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome; what was left out beside what passed makes nothing worse, and of none it is `pass`."""
    found = set(outcomes)
    worst = max(found, key=_ORDER.index, default=Outcome.PASS)
    return Outcome.PASS if worst is Outcome.SKIPPED and Outcome.PASS in found else worst


def find_exit_code(outcome: Outcome) -> int:
    """Return with what a program ends that has found this."""
    return _EXIT_CODES[outcome]
