"""Reasons why the free amounts of a node's cards are too small for a container."""

from __future__ import annotations

from collections.abc import Sequence

from accelkit.model.amounts import add_amounts, find_lack, take_off
from accelkit.model.request import ContainerRequest
from accelkit.model.units import format_bytes
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import CardTally
from accelkit.placement.likeness import is_large
from accelkit.placement.misfit import Misfit, MisfitReason


def find_lacking_amount(state: CardState, tally: CardTally, container: ContainerRequest) -> str:
    """Return a resource, except memory and compute, whose free amount is too small; empty if there is none.

    Args:
        state: the card.
        tally: the amounts of the card that are assigned to other containers of the pod.
        container: the container that requests the card.
    """
    # If a card is known only from labels, its memory is unknown, so zero free bytes do not mean that the card is full.
    conclusive = state.card.capacity_bytes > 0 or not state.free_amounts
    if container.counted_by and conclusive and not state.empty and max(state.free_bytes, state.free_compute) <= 0:
        # Other pods use the entire card, perhaps as a whole card, so no container may request it by number.
        return container.counted_by
    free = add_amounts(take_off(state.free_amounts, tally.amounts), tally.amounts_pool)
    return find_lack(free, container.amounts, container.counted_by)


def explain_lack(states: Sequence[CardState], tallies: Sequence[CardTally], container: ContainerRequest) -> Misfit:
    """Return the misfit for a container if too few cards have sufficient free amounts.

    Args:
        states: the node's cards.
        tallies: the amounts of each card that are assigned to other containers of the pod.
        container: the container that requests the cards.
    """
    if container.model and not any(s.card.model == container.model for s in states):
        return Misfit(MisfitReason.MODEL, container.cards, container.model)
    least = container.min_memory_bytes
    if least and sum(is_large(s.card, container) for s in states) < container.cards:
        return Misfit(MisfitReason.CARD_MEMORY, container.cards, format_bytes(least))
    if container.whole:
        return Misfit(MisfitReason.WHOLE_CARDS, container.cards)
    pairs = list(zip(states, tallies, strict=True))
    lacks = [lack for s, t in pairs if (lack := find_lacking_amount(s, t, container))] if container.amounts else []
    if lacks and len(states) - len(lacks) < container.cards:
        return Misfit(MisfitReason.AMOUNT, container.cards, lacks[0])
    without_compute = sum(
        min(s.free_bytes - t.memory_bytes, s.card.own_bytes) >= container.memory_bytes for s, t in pairs
    )
    if container.compute and without_compute >= container.cards:
        return Misfit(MisfitReason.COMPUTE, container.cards)
    return Misfit(MisfitReason.MEMORY if container.cards == 1 else MisfitReason.MEMORY_CARDS, container.cards)
