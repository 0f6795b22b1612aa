"""Conditions for the set of cards that a search must find on a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetRequest:
    """Conditions for possible sets, as bit masks in which bit i represents card i of the node.

    Attributes:
        count: the number of cards.
        free: the cards that may be chosen.
        empty: the cards without shares. The empty cards that remain should be well connected.
        required: the cards that must be in the set.
        together: for each card, the cards that may be in the same set; empty if there is no restriction.
    """

    count: int
    free: int
    empty: int
    required: int = 0
    together: tuple[int, ...] = ()


def list_cards(mask: int) -> tuple[int, ...]:
    """Return the numbers of the cards in a mask in ascending order."""
    return tuple(card for card in range(mask.bit_length()) if mask >> card & 1)
