"""What a judgement comes to, and the result of a stage that is made of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from accelkit.enablement.work.reasons import REASONS
from accelkit.model.stage import MAX_EVIDENCE, NodeState, Outcome, StageResult
from accelkit.texts import shorten


@dataclass(frozen=True)
class Finding:
    """How a stage ended, why, and what was seen, as a sentence."""

    outcome: Outcome
    reason: str
    evidence: str


def passed(evidence: str) -> Finding:
    """Return that of a stage that passed."""
    return Finding(Outcome.PASS, "", evidence)


def failed(reason: str, evidence: str) -> Finding:
    """Return that of a stage whose subject is at fault."""
    return Finding(Outcome.FAIL, reason, evidence)


def unknown(reason: str, evidence: str) -> Finding:
    """Return that of a stage of which nothing could be learnt."""
    return Finding(Outcome.UNKNOWN, reason, evidence)


def skip_for(need: Finding) -> Finding:
    """Return that of the extender's check where the device plugin's did not pass."""
    return Finding(Outcome.SKIPPED, "NeedNotPassed", f"plugin-check did not pass: {need.evidence}")


def build_result(finding: Finding, state: NodeState, seconds: float, *, node: str, namespace: str) -> StageResult:
    """Return the result of a stage that was found so just now.

    Args:
        finding: what was found.
        state: of the node.
        seconds: how long it took.
        node: its name.
        namespace: where accelkit runs.
    """
    next_action = REASONS[finding.reason].format(node=node, namespace=namespace) if finding.reason else ""
    return StageResult(
        finding.outcome,
        finding.reason,
        shorten(finding.evidence, MAX_EVIDENCE),
        shorten(next_action, MAX_EVIDENCE),
        found_at=round(time.time(), 3),
        seconds=round(seconds, 3),
        state=state,
    )
