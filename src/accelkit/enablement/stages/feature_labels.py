"""The stage `feature-labels`: the node has the labels that its agent wrote, and no other program removes the labels."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.model.keys import CARD_COUNT_LABEL, LABELS_ANNOTATION
from accelkit.model.label_record import read_label_record
from accelkit.model.stage import StageResult
from accelkit.texts import list_some


def judge_feature_labels(facts: NodeFacts) -> StageResult:
    """Evaluate whether the node has the card labels that pods can use to select nodes."""
    present = facts.node.metadata.labels or {}
    written = read_label_record(facts.node)
    if not written and facts.node.find_annotation(LABELS_ANNOTATION) not in (None, "{}"):
        return unknown(facts, StageReason.LABELS_UNREADABLE, "its record of written labels cannot be read")
    expected = {CARD_COUNT_LABEL, *written}
    if missing := sorted(expected - present.keys()):
        return failed(
            facts, StageReason.LABEL_MISSING, f"of {len(expected)} labels, these are missing: {list_some(missing)}"
        )
    others = sorted(key for key, value in written.items() if present[key] != value)
    also = f"; another program changed the value of {list_some(others, most=3)}" if others else ""
    return passed(f"it has all {len(expected)} labels{also}")
