"""Decides the next step of a node: a pure function of what is seen and recorded, so that a crash anywhere resumes.

A card is isolated (cordon, taint, condition), drained, repaired by somebody else, validated, and lifted. What a person
takes away is not put back for the same fault. Whatever is not known, nothing is done for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from accelkit.model.card import Card, Health
from accelkit.model.keys import UNHEALTHY_TAINT
from accelkit.remediation.deciding.actions import Action, Decision, TellNode, WriteCondition
from accelkit.remediation.deciding.advancing import Advance, CardCase, advance
from accelkit.remediation.deciding.faults import CardFault, find_fault, is_nameable
from accelkit.remediation.deciding.isolation import (
    SIGNED,
    TAINT_EFFECT,
    SeenTaint,
    add_word,
    find_condition,
    find_taint,
    has_word,
    is_ours,
    remove_word,
)
from accelkit.remediation.deciding.lifting import build_write, make_write
from accelkit.remediation.deciding.record import CardRecord, NodeRecord, Step
from accelkit.remediation.deciding.settings import RemediationSettings
from accelkit.remediation.deciding.views import NodeView
from accelkit.texts import shorten


@dataclass(frozen=True)
class Permits:
    """What may be done now beside taking back.

    Attributes:
        begin: whether this node may be one more under remediation.
        act: whether pods may be evicted and cards reset.
    """

    begin: bool = True
    act: bool = True


@dataclass
class _Draft:
    """A node's record to come, with what is done before and after it is written."""

    cards: dict[str, CardRecord]
    dismissed: dict[str, str]
    first: list[Action] = field(default_factory=list)
    last: list[Action] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    lifted: dict[str, float] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    mended: str | None = None


def decide(view: NodeView, settings: RemediationSettings, now: float, permits: Permits) -> Decision:
    """Return what is to be done on a node now.

    Args:
        view: the node.
        settings: what a person chose.
        now: Unix seconds.
        permits: what the cluster lets us do.
    """
    record = view.record
    if view.obstacle or record is None or view.cards is None:
        return Decision(hold=view.obstacle)
    draft = _Draft(dict(record.cards), dict(record.dismissed), mended=view.mended)
    cards = {card.id: card for card in view.cards}
    _respect_people(view, record, draft)
    _forget_dismissed(draft, cards)
    for name, each in sorted(draft.cards.items()):
        step = advance(CardCase(view, name, cards.get(name), each, settings, now, permits.act))
        _take(draft, name, each, step, now)
    hold = _begin(view, draft, cards, now, permits)
    return _finish(view, record, draft, settings, hold)


def is_fresh(card: Card, record: NodeRecord) -> bool:
    """Return whether a card has a fault that nobody has done, or refused to do, anything about."""
    fault = find_fault(card)
    if fault is None or card.id in record.cards:
        return False
    return record.dismissed.get(card.id) != fault.identity and is_nameable(card)


def _respect_people(view: NodeView, record: NodeRecord, draft: _Draft) -> None:
    """Let go of cards whose cordon somebody took away."""
    for name, each in record.cards.items():
        if each.cordoned and not has_word(view.cordon, name):
            del draft.cards[name]
            draft.dismissed[name] = each.fault
            draft.dropped.append(name)
            text = (
                f"card {name}: its cordon was taken away, so {each.reason} is left to people until it is another fault"
            )
            draft.last.append(TellNode("RemediationDismissed", text, warning=False))


def _forget_dismissed(draft: _Draft, cards: dict[str, Card]) -> None:
    for name in list(draft.dismissed):
        card = cards.get(name)
        fault = None if card is None else find_fault(card)
        # One whose health is unknown may still have it.
        well = card is None or card.health is Health.HEALTHY
        if well or (fault is not None and fault.identity != draft.dismissed[name]):
            del draft.dismissed[name]


def _take(draft: _Draft, name: str, before: CardRecord, step: Advance, now: float) -> None:
    draft.first += step.actions
    if step.mended:
        draft.mended = add_word(draft.mended, name)
    if step.record is None:
        del draft.cards[name]
        draft.lifted[name] = now - before.since
        if before.mended:
            draft.mended = remove_word(draft.mended, name, None)
    else:
        draft.cards[name] = step.record


def _begin(view: NodeView, draft: _Draft, cards: dict[str, Card], now: float, permits: Permits) -> str:
    """Add what has just failed; return why that may not be."""
    known = NodeRecord(draft.cards, draft.dismissed)
    fresh = [card for card in cards.values() if is_fresh(card, known)]
    if not fresh:
        return ""
    if not permits.act:
        return "Breaker"
    # A node that we work on already is no further one.
    if not permits.begin and not draft.cards:
        return "LimitReached"
    if view.unschedulable and not draft.cards:
        return "NodeCordoned"
    for card in fresh:
        fault = find_fault(card)
        if fault is None:
            continue
        ours = not has_word(view.cordon, card.id)
        draft.cards[card.id] = CardRecord(fault.identity, fault.reason, Step.ISOLATED, now, now, cordoned=ours)
        draft.begun.append(card.id)
        draft.last.append(TellNode("CardIsolated", _explain(card, fault)))
    return ""


def _explain(card: Card, fault: CardFault) -> str:
    after = "" if fault.drains else "; its pods stay"
    return (
        f"card {card.id} takes no new shares until it is mended: {shorten(card.health_reason) or fault.reason}{after}"
    )


def _finish(view: NodeView, record: NodeRecord, draft: _Draft, settings: RemediationSettings, hold: str) -> Decision:
    present = find_condition(view.conditions)
    after = NodeRecord(
        draft.cards, draft.dismissed, record.cordon_before, record.taint, record.condition, record.version
    )
    actions = list(draft.first)
    if not record.cards:
        # Where somebody else writes a condition of this type, it is theirs.
        ours = present is None or is_ours(present)
        after = msgspec.structs.replace(after, cordon_before=view.cordon, condition=ours)
    elif not draft.cards and record.condition and is_ours(present):
        actions.append(WriteCondition())
    write = build_write(view, after, draft.mended)
    if draft.begun:
        cordon, taints, after = write.cordon, list(write.taints), write.record
        for name in draft.begun:
            if draft.cards[name].cordoned:
                cordon = add_word(cordon, name)
        if settings.taint and find_taint(taints) is None:
            value = draft.cards[draft.begun[0]].reason
            taints.append(SeenTaint(UNHEALTHY_TAINT, value, TAINT_EFFECT))
            after = msgspec.structs.replace(after, taint=value)
        write = make_write(view, after, cordon, write.mended, taints)
    if write.record != record or write.changed:
        actions.append(write)
    actions += draft.last
    actions += _list_conditions(view, write.record)
    return Decision(tuple(actions), tuple(draft.begun), draft.lifted, tuple(draft.dropped), hold)


def _list_conditions(view: NodeView, record: NodeRecord) -> list[Action]:
    """Return the write by which the condition says what the record does."""
    if not record.cards or not record.condition:
        return []
    present = find_condition(view.conditions)
    if present is not None and not is_ours(present):
        return []
    reason = min(record.cards.items(), key=lambda each: (each[1].since, each[0]))[1].reason
    message = f"{SIGNED}under remediation: {', '.join(sorted(record.cards))}"
    if present is not None and (present.status, present.reason, present.message) == ("False", reason, message):
        return []
    return [WriteCondition(reason, message)]
