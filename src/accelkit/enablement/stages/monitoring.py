"""The stage `monitoring`: something has the node's metrics collected, and its agent shows series of each card.

The agent reads the cards when it is asked, so what it shows is as fresh as the question.
"""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import NotServed, Shown
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, skipped, unknown
from accelkit.model.stage import StageResult
from accelkit.texts import count_cards, list_some


def judge_monitoring(facts: NodeFacts) -> StageResult:
    """Judge whether the node is watched."""
    watched = facts.watched
    if watched is None:
        return skipped(facts, StageReason.NOT_INSTALLED, "monitoring is not installed in this cluster")
    if isinstance(watched, Unread):
        evidence = f"whether monitoring is installed cannot be read: {watched.why}"
        return unknown(facts, StageReason.MONITORING_UNREAD, evidence)
    shown = watched.agents.get(facts.name, Unread("its agent was not ready"))
    if isinstance(shown, NotServed):
        return skipped(facts, StageReason.METRICS_OFF, f"{watched.by} is there, and its agent serves no metrics")
    if isinstance(shown, Unread):
        return unknown(facts, StageReason.METRICS_UNREAD, f"its agent's metrics cannot be read: {shown.why}")
    return _judge_shown(facts, shown, watched.by)


def _judge_shown(facts: NodeFacts, shown: Shown, by: str) -> StageResult:
    cards = facts.cards.cards
    if missing := sorted(card.id for card in cards if card.id not in shown.cards):
        evidence = f"its agent shows {shown.series} series, and none of {list_some(missing, most=3)}"
        return failed(facts, StageReason.METRICS_MISSING, evidence)
    return passed(f"{by} has its agent scraped, which shows {shown.series} series of {count_cards(len(cards))}")
