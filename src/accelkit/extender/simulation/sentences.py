"""Sentences that describe changes, and the reasons why a card cannot be used.

The reasons why a pod does not fit a node are formatted by `Dialect.format_misfit`, as in filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from accelkit.model.card import Card, Health
from accelkit.model.request import ContainerRequest
from accelkit.model.units import format_bytes
from accelkit.placement.card_reasons import CardReason
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.charges import CardTally
from accelkit.placement.lacks import find_lacking_amount
from accelkit.texts import shorten

_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("GB", 10**9), ("MB", 10**6), ("KiB", 2**10), ("B", 1))
# Maximum number of pods that a sentence lists. The response contains all pods.
_MOST_NAMED: Final = 6
_CONSTRAINTS: Final = {
    "amounts": "the amounts other than memory and compute",
    "allowed": "the list of allowed cards",
    "denied": "the list of denied cards",
    "card_ids": "the constraint card_ids",
    "beside": "the constraint with",
    "min_memory_bytes": "the constraint min_memory",
    "groups": "the groups of cards",
}


def describe_card_reason(reason: CardReason, state: CardState, container: ContainerRequest) -> str:
    """Return why a container cannot use a card."""
    card = state.card
    match reason:
        case CardReason.CORDONED:
            sentence = "the card is cordoned"
        case CardReason.UNHEALTHY:
            sentence = f"the card is unhealthy{_append(card.health_reason)}"
        case CardReason.MODEL:
            sentence = f"its model is {shorten(card.model) or 'unknown'}, not {shorten(container.model)}"
        case CardReason.CARD_MEMORY:
            sentence = _describe_card_memory(card, container)
        case CardReason.NOT_ALLOWED:
            sentence = "the pod's lists of allowed and denied cards exclude it"
        case CardReason.IN_USE:
            sentence = "pods hold shares of it, and the pod requests the whole card"
        case CardReason.UNKNOWN_MEMORY:
            sentence = "its memory is unknown, so it can be requested only as a whole card"
        case CardReason.MEMORY | CardReason.COMPUTE | CardReason.AMOUNT:
            sentence = _describe_lack(reason, state, container)
        case _:
            sentence = _describe_bar(reason, state, container)
    return sentence


def _describe_card_memory(card: Card, container: ContainerRequest) -> str:
    memory = "unknown" if card.memory_bytes is None else format_bytes(card.memory_bytes)
    return f"its memory is {memory}, and the pod requests cards of at least {format_bytes(container.min_memory_bytes)}"


def _describe_lack(reason: CardReason, state: CardState, container: ContainerRequest) -> str:
    card = state.card
    if reason is CardReason.MEMORY:
        free = format_bytes(max(0, state.room_bytes))
        return f"{free} of {format_bytes(card.own_bytes)} free, {format_bytes(container.memory_bytes)} requested"
    if reason is CardReason.COMPUTE:
        free_percent = max(0, state.free_compute) / 10
        return f"{free_percent:g} % of its compute free, {container.compute / 10:g} % requested"
    lack = find_lacking_amount(state, CardTally(), container)
    free_amount = dict(state.free_amounts).get(lack)
    left = "no" if free_amount is None else f"{max(0, free_amount)} of {dict(card.amounts)[lack]}"
    return f"{left} {shorten(lack)} free, {dict(container.amounts)[lack]} requested"


def describe_change(change: Change, cards: Mapping[str, Card], detail: str = "") -> str:
    """Return the sentence that describes a change.

    Args:
        change: the change.
        cards: the cards of the node, by ID.
        detail: the problem of the node if the change concerns the node.
    """
    of = f" for container {change.container}" if change.container else ""
    match change.kind:
        case ChangeKind.LESS_MEMORY:
            less, after, before = map(format_exactly, (change.before - change.after, change.after, change.before))
            each = f" on each of its {change.on_cards} cards" if change.on_cards > 1 else ""
            sentence = f"{less} less memory{of}{each} ({after} instead of {before})"
        case ChangeKind.LESS_COMPUTE:
            sentence = f"less compute{of} ({change.after / 10:g} % of a card instead of {change.before / 10:g} %)"
        case ChangeKind.WITHOUT_CONSTRAINT:
            constraint = _CONSTRAINTS.get(change.constraint, f"the constraint {change.constraint}")
            sentence = f"without {constraint}{of}"
        case ChangeKind.FEWER_CARDS:
            fewer = change.before - change.after
            sentence = f"{fewer} fewer card{'s' if fewer > 1 else ''}{of} ({change.after} instead of {change.before})"
        case ChangeKind.CARD_BACK:
            sentence = " and ".join(_describe_return(cards[each]) for each in change.cards)
        case ChangeKind.PODS_ENDED:
            sentence = f"if {_list_pods([str(pod) for pod in change.pods])} ended"
        case ChangeKind.UNIT:
            sentence = f"once the node uses the cluster's memory unit{_append(detail)}"
        case ChangeKind.INVENTORY:
            sentence = f"once its inventory can be read{_append(detail)}; its free cards are unknown until then"
        case ChangeKind.SHARED:
            sentence = "once the node shares its cards (label accelkit.io/share=true); its cards are unknown until then"
    return sentence


def format_exactly(amount: int) -> str:
    """Return bytes as a whole number of the largest possible unit, because users copy the amount into limits."""
    name, scale = next((name, scale) for name, scale in _UNITS if amount % scale == 0)
    return f"{amount // scale} {name}"


def _describe_bar(reason: CardReason, state: CardState, container: ContainerRequest) -> str:
    match reason:
        case CardReason.RESERVED:
            return f"it is reserved for {shorten(state.reserved.whom) if state.reserved else 'other pods'}"
        case CardReason.BESIDE:
            return f"no pod with {shorten(str(container.beside))} holds a share of it"
        case CardReason.APART:
            holds = "holds" if container.apart in state.neighbours.sure else "may hold"
            return f"a pod with {shorten(str(container.apart))} {holds} a share of it"
        case _:
            return "the pod requests other cards"


def _describe_return(card: Card) -> str:
    words = [*(["uncordoned"] if card.cordoned else []), *(["repaired"] if card.health is Health.UNHEALTHY else [])]
    return f"card {card.id} {' and '.join(words)}{_append(card.health_reason)}"


def _list_pods(names: Sequence[str]) -> str:
    named = [f"pod {name}" for name in names[:_MOST_NAMED]]
    if more := len(names) - len(named):
        named.append(f"{more} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _append(detail: str) -> str:
    return f": {shorten(detail)}" if detail else ""
