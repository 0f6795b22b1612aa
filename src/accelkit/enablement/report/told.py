"""What is not in order, each once with all its nodes, the worst first; not what was only left out for it."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from accelkit.enablement.report.values import StageReport
from accelkit.model.stage import Outcome, Stage
from accelkit.texts import list_some

SHOWN_NODES: Final = 8


class Told(msgspec.Struct, frozen=True):
    """The same result of a stage on some nodes; `nodes` are names, sorted."""

    stage: Stage
    outcome: Outcome
    reason: str
    evidence: str
    next_action: str
    nodes: tuple[str, ...]

    @property
    def listed(self) -> str:
        """The first of its nodes, and how many more there are."""
        return list_some(self.nodes, most=SHOWN_NODES)

    def __str__(self) -> str:
        found = f"{self.outcome} ({self.reason}) on {self.listed}: {self.evidence}"
        return f"stage {self.stage}: {found}; {self.next_action}"


ACCOUNTING_STEP: Final = (
    "`accelkit audit` says whether it lasts; the runbook of AccelkitLedgerDivergence says what to do"
)


def tell_accounting(report: StageReport) -> list[str]:
    """Return what the audit found wrong, and what it could not compare at all, as sentences."""
    found = report.accounting
    if found is None:
        return []
    return [f"accounting: {found.outcome} ({sentence}); {ACCOUNTING_STEP}" for sentence in found.sentences]


def list_told(report: StageReport) -> list[Told]:
    """Return what did not pass by itself: what failed first, then by stage."""
    found: defaultdict[tuple[Stage, Outcome, str, str, str], list[str]] = defaultdict(list)
    for node in report.nodes:
        for cell in node.stages:
            if cell.outcome is not Outcome.PASS and cell.because is None:
                found[cell.stage, cell.outcome, cell.reason, cell.evidence, cell.next_action].append(node.name)
    outcomes, stages = list(Outcome), list(Stage)
    told = [Told(*key, tuple(nodes)) for key, nodes in found.items()]
    return sorted(told, key=lambda each: (-outcomes.index(each.outcome), stages.index(each.stage), each.nodes))
