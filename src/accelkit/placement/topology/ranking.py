"""Ranking of the sets of cards that a container may get, by their connections.

The ranking compares, in this order:

1. the weakest pair of a set, because a program waits for its slowest connection
2. the sum of all pairs
3. the sum of all pairs of the remaining empty cards, so that larger groups are preserved
4. the remaining memory, with the least memory first
5. the card numbers, with the lowest numbers first

With up to 16 cards, all sets are compared. With more cards, the search finds one good set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb
from typing import Final

import numpy as np

from accelkit.placement.topology.exchange import seek_set
from accelkit.placement.topology.links import CardLinks, restrict
from accelkit.placement.topology.set_request import SetRequest, list_cards
from accelkit.placement.topology.set_tables import MOST_CARDS, NO_PAIR, Masks, build_tables, list_sets

# The number of sets that can be measured in the time of one search step.
_SETS_PER_STEP: Final = 256
_MOST_RANK_BITS: Final = 58


def rank_sets(links: CardLinks, set_request: SetRequest, ranks: Sequence[int] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the possible sets, with the best set first. For more than 16 cards, yield only one good set.

    Args:
        links: the connections of the node's cards.
        set_request: the conditions for possible sets.
        ranks: the remaining amount of each card; empty if all amounts are equal.
    """
    places = list_cards(set_request.free | set_request.empty)
    if len(places) > MOST_CARDS:
        found = seek_set(links, set_request)
        yield from [] if found is None else [found]
        return
    if len(links.weights) > MOST_CARDS:
        part = _pack(set_request, places)
        small = tuple(ranks[place] for place in places) if ranks else ()
        for chosen in rank_sets(restrict(links, places), part, small):
            yield tuple(places[card] for card in chosen)
        return
    if not ranks:
        first = _find_best(links, set_request)
        if first is None:
            return
        yield list_cards(first)
    sets = _list_possible(len(links.weights), set_request)
    values = _measure(links, sets, set_request.empty)
    if ranks and len(sets):
        ties = sets[values == values.max()]
        yield list_cards(int(ties[np.argmin(_sum_ranks(ties, ranks))]))
    # If a caller continues after the best set, this set does not satisfy all constraints.
    for mask in sets[np.lexsort((_sum_ranks(sets, ranks), -values))][1:].tolist():
        yield list_cards(mask)


def count_steps(links: CardLinks, set_request: SetRequest) -> int:
    """Return the number of steps to find the best set, which does not depend on the speed of the machine."""
    cards = min((set_request.free | set_request.empty).bit_count(), len(links.weights))
    sets = comb(cards, set_request.count) if cards <= MOST_CARDS else cards * cards * set_request.count
    return set_request.count + sets // _SETS_PER_STEP


@lru_cache(maxsize=4096)
def _find_best(links: CardLinks, set_request: SetRequest) -> int | None:
    sets = _list_possible(len(links.weights), set_request)
    return int(sets[np.argmax(_measure(links, sets, set_request.empty))]) if len(sets) else None


def _list_possible(cards: int, set_request: SetRequest) -> Masks:
    """Return the possible sets, ordered by their card numbers."""
    sets: Masks = list_sets(cards, set_request.count)
    sets = sets[(sets & ~set_request.free == 0) & (sets & set_request.required == set_request.required)]
    for card, others in enumerate(set_request.together):
        apart = set_request.free & ~others & ~(1 << card)
        if apart and set_request.free >> card & 1:
            sets = sets[(sets >> card & 1 == 0) | (sets & apart == 0)]
    return sets


def _measure(links: CardLinks, sets: Masks, empty: int) -> Masks:
    """Return a sort key for each set. 20 bits are sufficient for any sum of 120 pairs."""
    tables = build_tables(links)
    weakest = np.where(tables.weakest[sets] == NO_PAIR, 0, tables.weakest[sets]).astype(np.int64)
    total, left = tables.sums[sets].astype(np.int64), tables.sums[empty & ~sets].astype(np.int64)
    measured: Masks = (weakest << 20 | total) << 20 | left
    return measured


def _sum_ranks(sets: Masks, ranks: Sequence[int]) -> Masks:
    total = np.zeros(len(sets), dtype=np.int64)
    # Values from an inventory may use all bits of an integer, and up to 16 values are added.
    beyond = max(0, max(ranks, default=0).bit_length() - _MOST_RANK_BITS)
    for card, rank in enumerate(ranks):
        total += (sets >> card & 1) * (rank >> beyond)
    return total


def _pack(set_request: SetRequest, places: Sequence[int]) -> SetRequest:
    """Return the conditions with the cards renumbered by their indexes in `places`."""

    def pack(mask: int) -> int:
        return sum((mask >> place & 1) << card for card, place in enumerate(places))

    together = tuple(pack(set_request.together[place]) for place in places) if set_request.together else ()
    return SetRequest(
        set_request.count, pack(set_request.free), pack(set_request.empty), pack(set_request.required), together
    )
