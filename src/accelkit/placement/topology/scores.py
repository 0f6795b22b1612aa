"""Scores nodes by the best set of cards that they have, and by what its use breaks up."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Final

from accelkit.placement.policies import MAX_SCORE
from accelkit.placement.topology.links import LINKED, CardLinks
from accelkit.placement.topology.ranking import rank_sets
from accelkit.placement.topology.wanted import Wanted

# Of a score: how good the set is, and how little its use breaks up.
_QUALITIES: Final = 7
_UNBROKEN: Final = 3


@lru_cache(maxsize=4096)
def score_set(links: CardLinks, count: int, free: int, empty: int, used_fraction: float = 0.0) -> int:
    """Score a node 0 to MAX_SCORE by the best set of `count` of its free cards, 0 where there is none.

    Up to 7 for the connections of the set, compared with those of NVLink or XGMI between every two. 3 more where its
    use leaves no empty card or touches none, 2 where no empty card that is left is as near to all of the set as these
    are to each other, so that whole groups stay; 1 where a group loses cards of which others are in use already.

    Args:
        links: the connections of the node's cards.
        count: how many cards; one card is scored by `used_fraction` instead of its connections.
        free: those that fit, as a bit mask.
        empty: those of which nobody holds anything.
        used_fraction: how much of the node's memory is used, 0 to 1.
    """
    chosen = next(rank_sets(links, Wanted(count, free, empty)), None)
    if chosen is None:
        return 0
    points = [min(LINKED, links.weights[i][j]) for i, j in combinations(chosen, 2)]
    if points:
        quality = round(_QUALITIES * sum(points) / (LINKED * len(points)))
    else:
        quality = 0 if used_fraction <= 0 else 1 + round((_QUALITIES - 1) * min(1.0, used_fraction))
    return min(MAX_SCORE, quality + _count_unbroken(links, chosen, empty))


def _count_unbroken(links: CardLinks, chosen: tuple[int, ...], empty: int) -> int:
    """Return how little the use of a set breaks up: 3 nothing, 0 a group of which no card is used yet."""
    mask = sum(1 << card for card in chosen)
    rest = empty & ~mask
    if not rest or not mask & empty:
        return _UNBROKEN
    near = min((_bound(links, i, j) for i, j in combinations(chosen, 2)), default=_find_nearest(links))
    alike = [
        card
        for card in range(len(links.weights))
        if not mask >> card & 1 and all(_bound(links, card, other) >= near for other in chosen)
    ]
    if not any(rest >> card & 1 for card in alike):
        return _UNBROKEN - 1
    return 0 if all(empty >> card & 1 for card in alike) else 1


def _bound(links: CardLinks, one: int, other: int) -> int:
    return min(LINKED, links.weights[one][other])


def _find_nearest(links: CardLinks) -> int:
    return min(LINKED, max((max(row) for row in links.weights), default=0))
