"""Removal of changes from a node. Only changes that the record of the node lists are removed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accelkit.remediation.deciding.actions import Action, WriteCondition, WriteNode
from accelkit.remediation.deciding.isolation import Taint, find_condition, is_ours, remove_taint, remove_word
from accelkit.remediation.deciding.record import NodeRecord
from accelkit.remediation.deciding.views import RemediationNode


def build_write(view: RemediationNode, record: NodeRecord, repaired: str | None) -> WriteNode:
    """Return the write that stores this record and removes the changes that the record no longer lists.

    If the record no longer contains a card, the card is removed from the cordon. If the record no longer contains any
    card, the taint is removed.

    Args:
        view: the current state of the node, with a readable record.
        record: the next record. The caller adds the cordon and the taint for new cards.
        repaired: the next value of the annotation that lists the repaired cards.
    """
    before = view.record or NodeRecord()
    cordon, taints = view.cordon, view.taints
    for card in sorted(before.cards.keys() - record.cards.keys()):
        if before.cards[card].cordoned:
            cordon = remove_word(cordon, card, before.cordon_before)
    if not record.cards:
        if before.taint:
            taints = remove_taint(taints, before.taint)
        record = msgspec.structs.replace(record, cordon_before=None, taint="", condition=False)
    return make_write(view, record, cordon, repaired, taints)


def make_write(
    view: RemediationNode, record: NodeRecord, cordon: str | None, repaired: str | None, taints: Iterable[Taint]
) -> WriteNode:
    """Return the write, including the names of the fields that differ from the current values of the node."""
    listed = tuple(taints)
    pairs = {"cordon": cordon != view.cordon, "repaired": repaired != view.repaired, "taints": listed != view.taints}
    changed = frozenset(name for name, differs in pairs.items() if differs)
    return WriteNode(record, cordon, repaired, listed, changed)


def build_undo(view: RemediationNode) -> tuple[Action, ...]:
    """Return the actions that undo all changes, regardless of the state of the cards; empty if there are no changes.

    The record is removed last, so that an interrupted undo can be resumed.
    """
    record = view.record
    if record is None or record.empty:
        return ()
    repaired = view.repaired
    for card, each in sorted(record.cards.items()):
        if each.repaired:
            repaired = remove_word(repaired, card, None)
    actions: list[Action] = []
    if record.condition and is_ours(find_condition(view.conditions)):
        actions.append(WriteCondition())
    return (*actions, build_write(view, NodeRecord(), repaired))
