"""Constructors of stage results."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason
from accelkit.model.stage import MAX_EVIDENCE, Outcome, StageResult
from accelkit.texts import shorten


def passed(evidence: str) -> StageResult:
    """Return the result of a stage that passed, with its evidence."""
    return StageResult(Outcome.PASS, evidence=shorten(evidence, MAX_EVIDENCE))


def failed(facts: NodeFacts, reason: StageReason, evidence: str) -> StageResult:
    """Return the result of a stage that failed on a node."""
    return _explain(Outcome.FAIL, facts, reason, evidence)


def unknown(facts: NodeFacts, reason: StageReason, evidence: str) -> StageResult:
    """Return the result of a stage whose outcome on a node is unknown."""
    return _explain(Outcome.UNKNOWN, facts, reason, evidence)


def stale(facts: NodeFacts, reason: StageReason, evidence: str) -> StageResult:
    """Return a result that is valid only for an earlier state of the node."""
    return _explain(Outcome.STALE, facts, reason, evidence)


def skipped(facts: NodeFacts, reason: StageReason, evidence: str) -> StageResult:
    """Return the result of a stage that was skipped on a node."""
    return _explain(Outcome.SKIPPED, facts, reason, evidence)


def _explain(outcome: Outcome, facts: NodeFacts, reason: StageReason, evidence: str) -> StageResult:
    next_action = NEXT_ACTIONS[reason].format(node=facts.name, namespace=facts.namespace)
    return StageResult(
        outcome, reason.value, evidence=shorten(evidence, MAX_EVIDENCE), next_action=shorten(next_action, MAX_EVIDENCE)
    )
