"""Takes back what a record says that we did on a node, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accelkit.remediation.deciding.actions import Action, WriteCondition, WriteNode
from accelkit.remediation.deciding.isolation import SeenTaint, find_condition, is_ours, remove_taint, remove_word
from accelkit.remediation.deciding.record import NodeRecord
from accelkit.remediation.deciding.views import NodeView


def build_write(view: NodeView, record: NodeRecord, mended: str | None) -> WriteNode:
    """Return the write after which a node has this record, and what belongs to it.

    Of cards that leave the record, the word in the cordon goes; with the last one, the taint does.

    Args:
        view: the node as it is, with a record that can be read.
        record: the one to come; for cards that are new in it, the cordon and the taint are added by the caller.
        mended: the annotation of mended cards to come.
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
    return make_write(view, record, cordon, mended, taints)


def make_write(
    view: NodeView, record: NodeRecord, cordon: str | None, mended: str | None, taints: Iterable[SeenTaint]
) -> WriteNode:
    """Return the write, with what of it differs from what is there."""
    listed = tuple(taints)
    pairs = {"cordon": cordon != view.cordon, "mended": mended != view.mended, "taints": listed != view.taints}
    changed = frozenset(name for name, differs in pairs.items() if differs)
    return WriteNode(record, cordon, mended, listed, changed)


def build_undo(view: NodeView) -> tuple[Action, ...]:
    """Return what takes everything back at once, whatever the cards are like; nothing where nothing was done.

    The record goes last, so that an undo that was cut short goes on where it was.
    """
    record = view.record
    if record is None or record.empty:
        return ()
    mended = view.mended
    for card, each in sorted(record.cards.items()):
        if each.mended:
            mended = remove_word(mended, card, None)
    actions: list[Action] = []
    if record.condition and is_ours(find_condition(view.conditions)):
        actions.append(WriteCondition())
    return (*actions, build_write(view, NodeRecord(), mended))
