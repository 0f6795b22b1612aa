"""A node with pods on it, for the search for changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from support.pods import make_ref

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change
from accelkit.placement.changes.search import search_changes
from accelkit.placement.changes.situation import ShareHolder, Situation, Terms
from accelkit.placement.charges import Charge
from accelkit.placement.policies import Policy

# What pods hold: by name the amount on each card, or None for the whole card.
Held = Mapping[str, Mapping[str, int | None]]


BYTES = Terms((1,))


def wants(memory: int = 0, *, name: str = "c", cards: int = 1, kind: Kind = Kind.APP, **more: object) -> PodRequest:
    whole = not memory and "compute" not in more
    return PodRequest((ContainerRequest(name, kind, cards, memory, whole=whole, **more),))  # type: ignore[arg-type]


def together(*pods: PodRequest) -> PodRequest:
    return PodRequest(tuple(container for pod in pods for container in pod.containers))


def node(cards: Collection[Card], held: Held | None = None, *, compute: int = 1000) -> Situation:
    """A node of these cards, on which pods hold something; so much compute is free of each."""
    listed, held = list(cards), held or {}
    places = {card.id: place for place, card in enumerate(listed)}

    def leave_out(uids: Collection[str]) -> list[CardState]:
        left = {name: amounts for name, amounts in held.items() if make_ref(name).uid not in uids}
        return [_state(card, left, compute) for card in listed]

    holders = []
    for name, amounts in held.items():
        charges = tuple(
            (places[card], Charge(listed[places[card]].capacity_bytes, 1000, whole=True))
            if amount is None
            else (places[card], Charge(amount, 0, whole=False))
            for card, amount in amounts.items()
        )
        holders.append(ShareHolder(make_ref(name), charges, sum(charge.memory_bytes for _, charge in charges)))
    return Situation(leave_out(()), tuple(holders), leave_out)


def _state(card: Card, held: Held, compute: int) -> CardState:
    amounts = [amounts[card.id] for amounts in held.values() if card.id in amounts]
    if None in amounts:
        return CardState(card, 0, 0, empty=False)
    return CardState(card, card.capacity_bytes - sum(each or 0 for each in amounts), compute, empty=not amounts)


def search(situation: Situation, request: PodRequest, *, steps: int = 100_000, terms: Terms = BYTES) -> list[Change]:
    """All that is found."""
    found = search_changes(situation, request, Policy.BINPACK, terms, Budget(steps))
    return [each for each in found if each is not None]
