"""Sets of cards that a container may get, ordered by their connections. Each set counts as one step of the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest
from accelkit.placement.likeness import may_be_together
from accelkit.placement.topology.groups import GroupSearch, may_be_groups
from accelkit.placement.topology.links import CardLinks
from accelkit.placement.topology.ranking import count_steps, rank_sets
from accelkit.placement.topology.set_request import SetRequest

# The number of the best sets that are tried before other sets. Usually, the first set fits.
_BEST_SETS: Final = 8
# The limit on the sets of an init container's cards that are compared with the groups of a subsequent container.
_MOST_DRAWS: Final = 32


@dataclass(frozen=True, slots=True)
class LinkedSets:
    """The cards of a node at one step of a search, by their indexes.

    Attributes:
        links: the connections of the cards; None if unknown.
        cards: all cards that accept new shares.
        pool: the cards whose devices the container must reuse.
        fitting: the cards that fit the container.
        empty: the cards without shares.
        ranks: the remaining amount of each card.
        spend: counts steps, and returns False if the limit is reached.
    """

    links: CardLinks | None
    cards: Sequence[Card]
    pool: Sequence[int]
    fitting: Sequence[int]
    empty: Iterable[int]
    ranks: Sequence[int]
    spend: Callable[[int], bool]

    def list_best(self, container: ContainerRequest) -> Iterator[tuple[int, ...]]:
        """Yield the best sets for the policy `topology`. Yield no set if the connections are unknown."""
        if self.links is None:
            return
        together: tuple[int, ...] = ()
        fitting = self.fitting
        if container.link or container.numa:
            together = tuple(
                _mask(j for j in fitting if may_be_together(container, card, self.cards[j])) for card in self.cards
            )
            fitting = [index for index in fitting if together[index] >> index & 1]
        set_request = SetRequest(container.cards, _mask(fitting), _mask(self.empty), _mask(self.pool), together)
        if self.spend(count_steps(self.links, set_request)):
            for cards in islice(rank_sets(self.links, set_request, self._list_ranks()), _BEST_SETS):
                if not self.spend(1):
                    return
                yield cards

    def list_grouped(self, container: ContainerRequest) -> Iterator[tuple[int, ...]]:
        """Yield the sets in which the cards of each group are as close together as the container requires."""
        if self.links is None:
            return
        memory = [card.memory_bytes or 0 for card in self.cards]
        if len(self.pool) > container.cards:
            # The kubelet may select any cards from the pool, so every selection must be suitable.
            draws = list(islice(combinations(sorted(self.pool), container.cards), _MOST_DRAWS + 1))
            fits = len(draws) <= _MOST_DRAWS and set(self.fitting) >= set(self.pool)
            if fits and all(may_be_groups(self.links, memory, container.groups, _mask(draw)) for draw in draws):
                yield from draws
            return
        required, empty = _mask(self.pool), _mask(self.empty)
        search = GroupSearch(self.links, memory, empty, required, self._list_ranks(), self.spend)
        yield from search.find(container.groups, _mask(self.fitting))

    def _list_ranks(self) -> Sequence[int]:
        return self.ranks if len({self.ranks[index] for index in self.fitting}) > 1 else ()


def _mask(indexes: Iterable[int]) -> int:
    return sum(1 << index for index in indexes)
