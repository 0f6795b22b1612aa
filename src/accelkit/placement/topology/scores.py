"""Node scores, based on their best set of cards and on the groups of cards that remain."""

from __future__ import annotations

from itertools import combinations
from typing import Final, NamedTuple

from accelkit.placement.policies import MAX_SCORE
from accelkit.placement.topology.links import LINKED, CardLinks
from accelkit.placement.topology.ranking import rank_sets
from accelkit.placement.topology.set_request import SetRequest

# The maximum values of the two parts of a score: the quality of the set, and the preservation of groups of cards.
_QUALITIES: Final = 7
_UNBROKEN: Final = 3


class SetRating(NamedTuple):
    """The quality of a node's best set (0 to 7), and how well this set preserves groups of cards (0 to 3).

    The quality of a single card is 0, because a single card does not have connections.
    """

    quality: int
    unbroken: int


def rate_set(links: CardLinks, set_request: SetRequest) -> SetRating | None:
    """Return the rating of the best possible set of a node; None if no set is possible.

    The quality is relative to a set in which all pairs are connected by NVLink or XGMI. The values of `unbroken` are:

    - 3: no empty card remains, or the set contains no empty card.
    - 2: no remaining empty card belongs to the group of the set. The group consists of the cards that are as close to
      all cards of the set as the cards of the set are to each other.
    - 1: the group contains remaining empty cards, but also cards in use.
    - 0: all other cards of the group are empty.
    """
    chosen = next(rank_sets(links, set_request), None)
    if chosen is None:
        return None
    points = [_bound(links, i, j) for i, j in combinations(chosen, 2)]
    quality = round(_QUALITIES * sum(points) / (LINKED * len(points))) if points else 0
    return SetRating(quality, _count_unbroken(links, chosen, set_request.empty))


def score_rating(rating: SetRating | None, cards: int, used_fraction: float) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, based on its best set; 0 if no set is possible.

    Args:
        rating: the rating of the best set; None if no set is possible.
        cards: the number of cards in the set. The score of a single card is based on `used_fraction` instead of
            connections.
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

    A node with enough such cards has a higher score than all nodes without enough such cards.
    """
    if granted:
        return MAX_SCORE - (MAX_SCORE - score) // 2
    return score * (MAX_SCORE // 2 - 1) // MAX_SCORE


def _count_unbroken(links: CardLinks, chosen: tuple[int, ...], empty: int) -> int:
    """Return the value of `unbroken` for a set, from 0 to 3, as defined in `rate_set`."""
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
