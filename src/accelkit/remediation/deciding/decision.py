"""Decision about the next step for a node, which depends only on its state and record and can be repeated at any time.

A failed card is isolated (cordon, taint, condition) and drained. A Job or an administrator then repairs it. After it is
validated, its isolation is lifted. If an administrator removes the isolation, the card is not isolated again because of
the same fault. If the state of a node is unknown, no action is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from accelkit.model.card import Card, Health
from accelkit.model.keys import UNHEALTHY_TAINT
from accelkit.remediation.deciding.actions import Action, Decision, NodeEvent, WriteCondition
from accelkit.remediation.deciding.advancing import Advance, CardCase, advance
from accelkit.remediation.deciding.faults import CardFault, find_fault, is_nameable
from accelkit.remediation.deciding.isolation import (
    SIGNED,
    TAINT_EFFECT,
    Taint,
    add_word,
    find_condition,
    find_taint,
    has_word,
    is_ours,
    remove_word,
)
from accelkit.remediation.deciding.lifting import build_write, make_write
from accelkit.remediation.deciding.record import CardRecord, NodeRecord, RemediationStep
from accelkit.remediation.deciding.settings import RemediationSettings
from accelkit.remediation.deciding.views import HoldReason, RemediationNode
from accelkit.texts import shorten


@dataclass(frozen=True)
class Permits:
    """The actions that the state of the cluster permits. It is always permitted to lift an isolation.

    Attributes:
        begin: whether remediation may begin on this node.
        act: whether pods may be evicted and cards may be reset.
    """

    begin: bool = True
    act: bool = True


@dataclass
class _Draft:
    """The next record of a node, with the actions to carry out before and after it is written."""

    cards: dict[str, CardRecord]
    dismissed: dict[str, str]
    first: list[Action] = field(default_factory=list)
    last: list[Action] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    lifted: dict[str, float] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    repaired: str | None = None


def decide(view: RemediationNode, settings: RemediationSettings, now: float, permits: Permits) -> Decision:
    """Return the actions to carry out on a node in this pass.

    Args:
        view: the current state of the node.
        settings: the administrator's settings.
        now: the current time in Unix seconds.
        permits: the actions that the state of the cluster permits.
    """
    record = view.record
    if view.obstacle or record is None or view.cards is None:
        return Decision(hold=view.obstacle)
    draft = _Draft(dict(record.cards), dict(record.dismissed), repaired=view.repaired)
    cards = {card.id: card for card in view.cards}
    _release_uncordoned(view, record, draft)
    _drop_resolved(draft, cards)
    for name, each in sorted(draft.cards.items()):
        step = advance(CardCase(view, name, cards.get(name), each, settings, now, permits.act))
        _take(draft, name, each, step, now)
    hold = _begin(view, draft, cards, now, permits)
    return _finish(view, record, draft, settings, hold)


def is_fresh(card: Card, record: NodeRecord) -> bool:
    """Return whether a card has a fault that is neither under remediation nor dismissed."""
    fault = find_fault(card)
    if fault is None or card.id in record.cards:
        return False
    return record.dismissed.get(card.id) != fault.identity and is_nameable(card)


def _release_uncordoned(view: RemediationNode, record: NodeRecord, draft: _Draft) -> None:
    """Dismiss the faults of cards whose cordon was removed."""
    for name, each in record.cards.items():
        if each.cordoned and not has_word(view.cordon, name):
            del draft.cards[name]
            draft.dismissed[name] = each.fault
            draft.dropped.append(name)
            text = (
                f"card {name}: its cordon was removed, so {each.reason} is ignored until the card has a different fault"
            )
            draft.last.append(NodeEvent("RemediationDismissed", text, warning=False))


def _drop_resolved(draft: _Draft, cards: dict[str, Card]) -> None:
    for name in list(draft.dismissed):
        card = cards.get(name)
        fault = None if card is None else find_fault(card)
        # A card whose health is unknown may still have the fault.
        well = card is None or card.health is Health.HEALTHY
        if well or (fault is not None and fault.identity != draft.dismissed[name]):
            del draft.dismissed[name]


def _take(draft: _Draft, name: str, before: CardRecord, step: Advance, now: float) -> None:
    draft.first += step.actions
    if step.repaired:
        draft.repaired = add_word(draft.repaired, name)
    if step.record is None:
        del draft.cards[name]
        draft.lifted[name] = now - before.since
        if before.repaired:
            draft.repaired = remove_word(draft.repaired, name, None)
    else:
        draft.cards[name] = step.record


def _begin(view: RemediationNode, draft: _Draft, cards: dict[str, Card], now: float, permits: Permits) -> HoldReason:
    """Begin the remediation of cards with a new fault; return the reason if this is not permitted."""
    known = NodeRecord(draft.cards, draft.dismissed)
    fresh = [card for card in cards.values() if is_fresh(card, known)]
    if not fresh:
        return ""
    if not permits.act:
        return "Breaker"
    # The limit does not apply to nodes that are already under remediation.
    if not permits.begin and not draft.cards:
        return "LimitReached"
    if view.unschedulable and not draft.cards:
        return "NodeCordoned"
    for card in fresh:
        fault = find_fault(card)
        if fault is None:
            continue
        ours = not has_word(view.cordon, card.id)
        draft.cards[card.id] = CardRecord(
            fault.identity, fault.reason, RemediationStep.ISOLATED, now, now, cordoned=ours
        )
        draft.begun.append(card.id)
        draft.last.append(NodeEvent("CardIsolated", _explain(card, fault)))
    return ""


def _explain(card: Card, fault: CardFault) -> str:
    after = "" if fault.drains else "; its pods continue to run"
    return (
        f"card {card.id} takes no new shares until it is repaired: {shorten(card.health_reason) or fault.reason}{after}"
    )


def _finish(
    view: RemediationNode, record: NodeRecord, draft: _Draft, settings: RemediationSettings, hold: HoldReason
) -> Decision:
    present = find_condition(view.conditions)
    after = NodeRecord(
        draft.cards, draft.dismissed, record.cordon_before, record.taint, record.condition, record.version
    )
    actions = list(draft.first)
    if not record.cards:
        # A condition of this type from another controller is not changed.
        ours = present is None or is_ours(present)
        after = msgspec.structs.replace(after, cordon_before=view.cordon, condition=ours)
    elif not draft.cards and record.condition and is_ours(present):
        actions.append(WriteCondition())
    write = build_write(view, after, draft.repaired)
    if draft.begun:
        cordon, taints, after = write.cordon, list(write.taints), write.record
        for name in draft.begun:
            if draft.cards[name].cordoned:
                cordon = add_word(cordon, name)
        if settings.taint and find_taint(taints) is None:
            value = draft.cards[draft.begun[0]].reason
            taints.append(Taint(UNHEALTHY_TAINT, value, TAINT_EFFECT))
            after = msgspec.structs.replace(after, taint=value)
        write = make_write(view, after, cordon, write.repaired, taints)
    if write.record != record or write.changed:
        actions.append(write)
    actions += draft.last
    actions += _list_conditions(view, write.record)
    return Decision(tuple(actions), tuple(draft.begun), draft.lifted, tuple(draft.dropped), hold)


def _list_conditions(view: RemediationNode, record: NodeRecord) -> list[Action]:
    """Return the write that updates the condition to match the record; empty if the condition already matches."""
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
