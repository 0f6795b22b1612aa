"""The stages `plugin-check` and `extender-check`, whose last results from check pods are recorded on the node.

Only the Node object is read. A result that does not contain the state of the node is stale.
"""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import stale, unknown
from accelkit.model.stage import Outcome, Stage, StageResult, judge_recorded


def judge_plugin_check(facts: NodeFacts) -> StageResult:
    """Evaluate whether a check pod received a share on the node and could use the share."""
    return _judge(facts, Stage.PLUGIN_CHECK)


def judge_extender_check(facts: NodeFacts) -> StageResult:
    """Evaluate whether the extender placed the check pod, and whether ledger and kubelet agree about the pod."""
    return _judge(facts, Stage.EXTENDER_CHECK)


def _judge(facts: NodeFacts, stage: Stage) -> StageResult:
    if facts.record is None:
        return unknown(facts, StageReason.RECORD_UNREADABLE, "its annotation accelkit.io/stages cannot be read")
    result = facts.record.results.get(stage)
    if result is None:
        return unknown(facts, StageReason.NEVER_CHECKED, "no check has run on this node")
    if result.outcome is Outcome.SKIPPED:
        return unknown(facts, StageReason.NEVER_CHECKED, f"the last check skipped this stage: {result.evidence}")
    if result.state is None:
        return stale(
            facts,
            StageReason.STATE_CHANGED,
            f"the state of the node at the time of the result {result.outcome} is unknown",
        )
    return judge_recorded(result, facts.state)
