"""Judges the stages of enablement from lists that were read before: no I/O."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import ClusterFacts, NodeFacts, list_node_facts
from accelkit.enablement.facts.node_state import state_of
from accelkit.enablement.facts.seen_objects import OwnPod, SeenNode
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.stages.judging import find_cause, judge_node

__all__ = [
    "ClusterFacts",
    "NodeFacts",
    "OwnPod",
    "SeenNode",
    "Unread",
    "find_cause",
    "judge_node",
    "list_node_facts",
    "state_of",
]
