"""Findings of an evaluation, and functions that build stage results from findings."""

from __future__ import annotations

import time
from dataclasses import dataclass

from accelkit.enablement.work.reasons import NEXT_ACTIONS, WorkReason
from accelkit.model.stage import MAX_EVIDENCE, NodeState, Outcome, StageResult
from accelkit.texts import shorten


@dataclass(frozen=True)
class Finding:
    """The outcome of a stage, its reason, and its evidence as a sentence."""

    outcome: Outcome
    reason: WorkReason | None
    evidence: str


def passed(evidence: str) -> Finding:
    """Return the finding for a stage that passed."""
    return Finding(Outcome.PASS, None, evidence)


def failed(reason: WorkReason, evidence: str) -> Finding:
    """Return the finding for a stage that failed."""
    return Finding(Outcome.FAIL, reason, evidence)


def unknown(reason: WorkReason, evidence: str) -> Finding:
    """Return the finding for a stage whose outcome is unknown."""
    return Finding(Outcome.UNKNOWN, reason, evidence)


def skip_for(need: Finding) -> Finding:
    """Return the finding for the extender's check if the device plugin's check did not pass."""
    return Finding(Outcome.SKIPPED, "NeedNotPassed", f"plugin-check did not pass: {need.evidence}")


def build_result(finding: Finding, state: NodeState, seconds: float, *, node: str, namespace: str) -> StageResult:
    """Return the stage result for a current finding.

    Args:
        finding: the finding.
        state: the state of the node.
        seconds: the duration of the check.
        node: the name of the node.
        namespace: accelkit's namespace.
    """
    next_action = NEXT_ACTIONS[finding.reason].format(node=node, namespace=namespace) if finding.reason else ""
    return StageResult(
        finding.outcome,
        finding.reason or "",
        shorten(finding.evidence, MAX_EVIDENCE),
        shorten(next_action, MAX_EVIDENCE),
        found_at=round(time.time(), 3),
        seconds=round(seconds, 3),
        state=state,
    )
