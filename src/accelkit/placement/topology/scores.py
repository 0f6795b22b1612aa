"""Scores of nodes by their best set of cards and by the groups of cards that using it breaks up."""

from __future__ import annotations

from itertools import combinations
from typing import Final, NamedTuple

from accelkit.placement.policies import MAX_SCORE
from accelkit.placement.topology.links import LINKED, CardLinks
from accelkit.placement.topology.ranking import rank_sets
from accelkit.placement.topology.set_request import SetRequest

# Parts of a score: the quality of the set, and how little using it breaks up.
_QUALITIES: Final = 7
_UNBROKEN: Final = 3


class SetRating(NamedTuple):
    """The quality of a node's best set, from 0 to 7, and how little using it breaks up, from 0 to 3.

    The quality of one card is 0, because it has no connections.
    """

    quality: int
    unbroken: int


def rate_set(links: CardLinks, set_request: SetRequest) -> SetRating | None:
    """Return the rating of the best possible set of a node; None if no set is possible.

    The quality compares the connections of the set with NVLink or XGMI between all pairs. `unbroken` is 3 if no empty
    card is left or the set contains none. It is 2 if no remaining empty card is as near to all cards of the set as they
    are to each other, so that whole groups stay. It is 1 if the set is taken from a group that has other cards in use.
    """
    chosen = next(rank_sets(links, set_request), None)
    if chosen is None:
        return None
    points = [_bound(links, i, j) for i, j in combinations(chosen, 2)]
    quality = round(_QUALITIES * sum(points) / (LINKED * len(points))) if points else 0
    return SetRating(quality, _count_unbroken(links, chosen, set_request.empty))


def score_rating(rating: SetRating | None, cards: int, used_fraction: float) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, by its best set; 0 if it has none.

    Args:
        rating: the rating of the best set.
        cards: the number of cards in the set; one card is scored by `used_fraction` instead of its connections.
        used_fraction: the used fraction of the node's memory, from 0 to 1.
    """
    if rating is None:
        return 0
    quality = rating.quality
    if cards == 1 and used_fraction > 0:
        quality = 1 + round((_QUALITIES - 1) * min(1.0, used_fraction))
    return min(MAX_SCORE, quality + rating.unbroken)


def score_preference(score: int, *, granted: bool) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, for a container that prefers cards near a network card.

    A node with such cards scores higher than all nodes without them, just as such a card is preferred within a node.
    """
    if granted:
        return MAX_SCORE - (MAX_SCORE - score) // 2
    return score * (MAX_SCORE // 2 - 1) // MAX_SCORE


def _count_unbroken(links: CardLinks, chosen: tuple[int, ...], empty: int) -> int:
    """Return how little using a set breaks up: 3 for nothing, 0 for a group of which no card is in use."""
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
