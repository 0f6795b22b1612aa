"""The stage `monitoring`: the node's metrics are collected, and the agent serves metric series for each card.

The agent reads the cards on each request, so its metrics are current.
"""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import AgentMetrics, NotServed
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, skipped, unknown
from accelkit.model.stage import StageResult
from accelkit.texts import count_cards, list_some


def judge_monitoring(facts: NodeFacts) -> StageResult:
    """Evaluate whether the node is monitored."""
    monitoring = facts.monitoring
    if monitoring is None:
        return skipped(facts, StageReason.NOT_INSTALLED, "monitoring is not installed in this cluster")
    if isinstance(monitoring, Unread):
        evidence = f"it is unknown whether monitoring is installed: {monitoring.why}"
        return unknown(facts, StageReason.MONITORING_UNREAD, evidence)
    metrics = monitoring.agents.get(facts.name, Unread("its agent was not ready"))
    if isinstance(metrics, NotServed):
        return skipped(facts, StageReason.METRICS_OFF, f"{monitoring.by} exists, but the node agent serves no metrics")
    if isinstance(metrics, Unread):
        return unknown(facts, StageReason.METRICS_UNREAD, f"its agent's metrics cannot be read: {metrics.why}")
    return _judge_metrics(facts, metrics, monitoring.by)


def _judge_metrics(facts: NodeFacts, metrics: AgentMetrics, by: str) -> StageResult:
    cards = facts.cards.cards
    if missing := sorted(card.id for card in cards if card.id not in metrics.cards):
        evidence = f"its agent serves {metrics.series} series, but none for {list_some(missing, most=3)}"
        return failed(facts, StageReason.METRICS_MISSING, evidence)
    return passed(f"{by} configures scraping; its agent serves {metrics.series} series for {count_cards(len(cards))}")
