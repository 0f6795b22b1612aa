"""The stage `monitoring`: somebody collects the node's metrics. Who looks at the collector hands in what was found."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import skipped, unknown
from accelkit.model.stage import StageResult


def judge_monitoring(facts: NodeFacts) -> StageResult:
    """Judge whether the node is watched."""
    if not facts.monitored:
        return skipped(facts, StageReason.NOT_INSTALLED, "monitoring is not installed in this cluster")
    if facts.monitoring is None:
        return unknown(facts, StageReason.NEVER_CHECKED, "nobody looked for the node's metrics")
    return facts.monitoring
