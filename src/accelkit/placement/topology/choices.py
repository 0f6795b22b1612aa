"""Lists the sets of cards that a container may have, by how they are connected: for `fit`, in steps of its search."""

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
from accelkit.placement.topology.wanted import Wanted

# So many of the best sets are tried before others: mostly the first one does.
_BEST_SETS: Final = 8
# So many sets of cards of an init container are compared with the groups of a container after it.
_MOST_DRAWS: Final = 32


@dataclass(frozen=True, slots=True)
class LinkedSets:
    """The cards of a node at one moment of a search, by their indexes.

    Attributes:
        links: how they are connected; None where nobody knows.
        cards: all that may take shares.
        pool: those whose devices the container takes over, and therefore has.
        fitting: those that the container fits.
        empty: those of which nobody holds anything.
        ranks: for each card, how much is left of it over.
        spend: told of steps; False when there are none left.
    """

    links: CardLinks | None
    cards: Sequence[Card]
    pool: Sequence[int]
    fitting: Sequence[int]
    empty: Iterable[int]
    ranks: Sequence[int]
    spend: Callable[[int], bool]

    def list_best(self, container: ContainerRequest) -> Iterator[tuple[int, ...]]:
        """Yield the sets that the policy `topology` likes best; none where nobody knows the connections."""
        if self.links is None:
            return
        together: tuple[int, ...] = ()
        fitting = self.fitting
        if container.link or container.numa:
            together = tuple(
                _mask(j for j in fitting if may_be_together(container, card, self.cards[j])) for card in self.cards
            )
            fitting = [index for index in fitting if together[index] >> index & 1]
        wanted = Wanted(container.cards, _mask(fitting), _mask(self.empty), _mask(self.pool), together)
        if self.spend(count_steps(self.links, wanted)):
            for cards in islice(rank_sets(self.links, wanted, self._list_ranks()), _BEST_SETS):
                if not self.spend(1):
                    return
                yield cards

    def list_grouped(self, container: ContainerRequest) -> Iterator[tuple[int, ...]]:
        """Yield the sets in which the container's groups are near each other, as it wants them."""
        if self.links is None:
            return
        memory = [card.memory_bytes or 0 for card in self.cards]
        if len(self.pool) > container.cards:
            # The kubelet draws from the pool as it likes, so every draw must do.
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
