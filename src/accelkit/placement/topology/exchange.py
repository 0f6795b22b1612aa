"""Search for a well-connected set of cards on a node with too many cards to compare all sets.

The search extends sets and exchanges cards. No exchange of a single card improves the result, but a better set may
exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from accelkit.placement.topology.links import CardLinks
from accelkit.placement.topology.set_request import SetRequest, list_cards
from accelkit.placement.topology.set_tables import NO_PAIR

_Weights: TypeAlias = npt.NDArray[np.int64]
_Cards: TypeAlias = npt.NDArray[np.bool_]

# The number of cards that are tried as the first card of a set, starting with the cards with the strongest connections.
_SEEDS: Final = 8
# The width, in bits, of a field in the measure. Even for the largest request, sums are far below the limit of the
# field.
_SHIFT: Final = 26
_IMPOSSIBLE: Final = -1


def seek_set(links: CardLinks, set_request: SetRequest) -> tuple[int, ...] | None:
    """Return a possible set that cannot be improved by the exchange of one card; None if no set was found."""
    if set_request.required & ~set_request.free or set_request.required.bit_count() > set_request.count:
        return None
    search, best = _Search(links, set_request), None
    seeds = (
        [list_cards(set_request.required)]
        if set_request.required
        else [(card,) for card in search.list_seeds(set_request.count)]
    )
    for seed in seeds:
        chosen = search.grow(seed, set_request.count)
        if chosen is None:
            continue
        found = search.exchange(chosen)
        value = search.measure(found)
        if value >= 0 and (best is None or (-value, found) < best):
            best = -value, found
    return None if best is None else best[1]


class _Search:
    def __init__(self, links: CardLinks, set_request: SetRequest) -> None:
        cards = len(links.weights)
        self._links = np.array(links.weights, dtype=np.int64)
        self._candidates, self._kept = _to_array(set_request.free, cards), _to_array(set_request.required, cards)
        self._empty = _to_array(set_request.empty, cards)
        # The same weights, except that pairs of cards that may not be together have a lower weight than all other
        # pairs.
        self._weights = self._links.copy()
        for one, others in enumerate(set_request.together):
            apart = ~_to_array(others, cards)
            apart[one] = False
            self._weights[one, apart] = self._weights[apart, one] = _IMPOSSIBLE

    def list_seeds(self, count: int) -> list[int]:
        """Return the cards with the largest sums of their `count` - 1 strongest connections."""
        cards = np.flatnonzero(self._candidates)
        strongest = np.sort(self._weights[np.ix_(cards, cards)], axis=1)[:, ::-1][:, : max(1, count - 1)].sum(axis=1)
        return [int(card) for card in cards[np.argsort(-strongest, kind="stable")][:_SEEDS]]

    def grow(self, seed: tuple[int, ...], count: int) -> tuple[int, ...] | None:
        """Add the best connected card until the set has `count` cards; return None if no card can be added."""
        chosen = list(seed)
        while len(chosen) < count:
            value = self._value_with(chosen)
            added = int(np.argmax(value))
            if value[added] < 0:
                return None
            chosen.append(added)
        return tuple(sorted(chosen))

    def exchange(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Exchange single cards as long as the set improves."""
        best = self.measure(chosen)
        for _ in range(2 * len(chosen)):
            found = max(
                (self._replace(chosen, out) for out in chosen if not self._kept[out]), default=(_IMPOSSIBLE, chosen)
            )
            if found[0] <= best:
                break
            best, chosen = found
        return chosen

    def measure(self, chosen: Sequence[int]) -> int:
        """Return the measure of a set, which orders sets in the same way as `ranking`; negative for impossible sets."""
        block = self._weights[np.ix_(chosen, chosen)]
        pairs = block[np.triu_indices(len(chosen), 1)]
        weakest, total = (int(pairs.min()), int(pairs.sum())) if len(pairs) else (0, 0)
        return _IMPOSSIBLE if weakest < 0 else (weakest << _SHIFT | total) << _SHIFT | self._count_left(chosen)

    def _count_left(self, chosen: Sequence[int]) -> int:
        rest = self._empty.copy()
        rest[list(chosen)] = False
        return int(self._links[np.ix_(rest, rest)].sum()) // 2

    def _replace(self, chosen: tuple[int, ...], out: int) -> tuple[int, tuple[int, ...]]:
        """Return the best set in which a different card replaces the given card, and the measure of this set."""
        rest = [card for card in chosen if card != out]
        added = int(np.argmax(self._value_with(rest)))
        found = tuple(sorted((*rest, added)))
        return (self.measure(found), found) if self._candidates[added] and added not in rest else (_IMPOSSIBLE, chosen)

    def _value_with(self, chosen: Sequence[int]) -> _Weights:
        """Return, for each card, the measure of the set with that card; negative if the set is impossible."""
        possible, rest = self._candidates.copy(), self._empty.copy()
        possible[list(chosen)] = rest[list(chosen)] = False
        # Of two otherwise equal cards, the card with the weaker links to the remaining empty cards is better.
        value = (1 << _SHIFT) - 1 - np.where(self._empty, self._links[:, rest].sum(axis=1), 0)
        if chosen:
            rows = self._weights[list(chosen)]
            # An added card does not strengthen the existing pairs.
            within = rows[:, list(chosen)][np.triu_indices(len(chosen), 1)]
            weakest = np.minimum(rows.min(axis=0), within.min(initial=NO_PAIR))
            value += (weakest << _SHIFT | np.maximum(rows.sum(axis=0), 0)) << _SHIFT
            possible &= weakest >= 0
        best: _Weights = np.where(possible, value, _IMPOSSIBLE)
        return best


def _to_array(mask: int, cards: int) -> _Cards:
    return np.array([mask >> card & 1 for card in range(cards)], dtype=np.bool_)
