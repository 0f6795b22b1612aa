"""Results of stages that did not pass, grouped by cause, worst first, and without skipped stages."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from accelkit.enablement.report.values import StageReport
from accelkit.model.stage import Outcome, Stage
from accelkit.texts import list_some

LISTED_NODES: Final = 8


class StageProblem(msgspec.Struct, frozen=True):
    """A stage result that applies to one or more nodes; `nodes` contains the sorted node names."""

    stage: Stage
    outcome: Outcome
    reason: str
    evidence: str
    next_action: str
    nodes: tuple[str, ...]

    @property
    def listed(self) -> str:
        """The first few nodes, and the number of the remaining nodes."""
        return list_some(self.nodes, most=LISTED_NODES)

    def __str__(self) -> str:
        found = f"{self.outcome} ({self.reason}) on {self.listed}: {self.evidence}"
        return f"stage {self.stage}: {found}; {self.next_action}"


ACCOUNTING_STEP: Final = (
    "check with `accelkit audit` whether the problem persists; the runbook of AccelkitLedgerDivergence lists the next "
    "steps"
)


def describe_accounting(report: StageReport) -> list[str]:
    """Return a sentence for each accounting fault."""
    found = report.accounting
    if found is None:
        return []
    return [f"accounting: {found.outcome} ({sentence}); {ACCOUNTING_STEP}" for sentence in found.sentences]


def list_problems(report: StageReport) -> list[StageProblem]:
    """Return the results of stages that did not pass, ordered by outcome (worst first) and stage."""
    found: defaultdict[tuple[Stage, Outcome, str, str, str], list[str]] = defaultdict(list)
    for node in report.nodes:
        for cell in node.stages:
            if cell.outcome is not Outcome.PASS and cell.because is None:
                found[cell.stage, cell.outcome, cell.reason, cell.evidence, cell.next_action].append(node.name)
    outcomes, stages = list(Outcome), list(Stage)
    problems = [StageProblem(*key, tuple(nodes)) for key, nodes in found.items()]
    return sorted(problems, key=lambda each: (-outcomes.index(each.outcome), stages.index(each.stage), each.nodes))
