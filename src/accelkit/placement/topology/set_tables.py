"""Tables of the weakest pair and the sum of all pairs for each set of up to 16 cards, indexed by bit mask.

Bit i of a mask represents card i. For 16 cards, computing the tables for all masks takes one millisecond. The tables
are stored with the connections of the cards, which all nodes of the same kind share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from accelkit.placement.topology.links import CardLinks

# The maximum number of cards for which all sets are measured.
MOST_CARDS: Final = 16

# The value for a set without pairs, which is higher than any weight.
NO_PAIR: Final = 1023

Masks: TypeAlias = npt.NDArray[np.int64]
Measures: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SetTables:
    """The measures of all sets of a node's cards, indexed by mask.

    Attributes:
        weakest: the weight of the weakest pair, or NO_PAIR for fewer than two cards, with the shape (2 ** cards).
        sums: the sum of the weights of all pairs, with the shape (2 ** cards).
    """

    weakest: Measures
    sums: Measures


@lru_cache(maxsize=64)
def build_tables(links: CardLinks) -> SetTables:
    """Return the measures of all sets of at most 16 cards."""
    cards = len(links.weights)
    weakest, sums = np.full(1 << cards, NO_PAIR, dtype=np.int32), np.zeros(1 << cards, dtype=np.int32)
    for card in range(cards):
        # For each set of lower-numbered cards, compute the weakest pair of this card with the set, and the sum of these
        # pairs.
        low, total = np.full(1 << card, NO_PAIR, dtype=np.int32), np.zeros(1 << card, dtype=np.int32)
        for other in range(card):
            half, weight = 1 << other, links.weights[card][other]
            low[half : 2 * half] = np.minimum(low[:half], weight)
            total[half : 2 * half] = total[:half] + weight
        with_it = slice(1 << card, 2 << card)
        weakest[with_it] = np.minimum(weakest[: 1 << card], low)
        sums[with_it] = sums[: 1 << card] + total
    return SetTables(weakest, sums)


@lru_cache(maxsize=256)
def list_sets(cards: int, count: int) -> Masks:
    """Return all sets of `count` of the first `cards` cards, ordered by their card numbers: 0 1, 0 2, … 1 2, …."""
    masks = np.arange(1 << cards, dtype=np.int64)
    masks = masks[np.bitwise_count(masks) == count]
    mirrored = np.zeros_like(masks)
    for card in range(cards):
        mirrored |= (masks >> card & 1) << (cards - 1 - card)
    sets: Masks = masks[np.argsort(-mirrored)]
    return sets
