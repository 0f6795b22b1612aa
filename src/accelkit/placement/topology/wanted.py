"""The set of cards that is sought on a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sets of cards are possible, as bit masks: bit i is card i of the node.

    Attributes:
        count: how many cards.
        free: those that may be chosen.
        empty: those of which nobody holds anything; what is left of them should stay connected well.
        required: those that must be in the set.
        together: for each card, those that it may be in a set with; empty where all may be with all.
    """

    count: int
    free: int
    empty: int
    required: int = 0
    together: tuple[int, ...] = ()


def list_cards(mask: int) -> tuple[int, ...]:
    """Return the cards of a mask, ascending."""
    return tuple(card for card in range(mask.bit_length()) if mask >> card & 1)
