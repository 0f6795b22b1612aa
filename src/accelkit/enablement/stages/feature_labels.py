"""The stage `feature-labels`: the node has the labels that its agent wrote, and no other program takes them away."""

from __future__ import annotations

from typing import Final

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.model.label_record import LABELS_ANNOTATION, read_label_record
from accelkit.model.stage import StageResult
from accelkit.texts import list_some

# Every node with cards has it, whatever else its agent could read.
CARDS_LABEL: Final = "accelkit.io/cards.count"


def judge_feature_labels(facts: NodeFacts) -> StageResult:
    """Judge whether pods that select nodes by their cards find this one."""
    present = facts.node.metadata.labels or {}
    written = read_label_record(facts.node)
    if not written and facts.node.find_annotation(LABELS_ANNOTATION) not in (None, "{}"):
        return unknown(facts, StageReason.LABELS_UNREADABLE, "its record of labels cannot be read")
    expected = {CARDS_LABEL, *written}
    if missing := sorted(expected - present.keys()):
        return failed(facts, StageReason.LABEL_MISSING, f"of {len(expected)} labels it lacks {list_some(missing)}")
    others = sorted(key for key, value in written.items() if present[key] != value)
    also = f"; another program gave {list_some(others, most=3)} another value" if others else ""
    return passed(f"it has all {len(expected)} labels{also}")
