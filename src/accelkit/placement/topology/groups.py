"""Search for cards for a container that requests groups of nearby cards, some of them on the same socket.

The search places one group at a time, starting with the set that the policy `topology` prefers, and backtracks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from accelkit.model.request import CardGroup, Near
from accelkit.placement.topology.links import SAME_SOCKET, SAME_SWITCH, CardLinks
from accelkit.placement.topology.ranking import count_steps, rank_sets
from accelkit.placement.topology.set_request import SetRequest, list_cards
from accelkit.placement.topology.set_tables import MOST_CARDS

# The limit on the steps of the check whether cards form the requested groups.
_STEPS: Final = 2_000
_LEAST_WEIGHTS: Final = {Near.SWITCH: SAME_SWITCH, Near.SOCKET: SAME_SOCKET, Near.ANY: 0}


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """The search on one node.

    Attributes:
        links: the connections of the node's cards.
        memory: the memory of each card in bytes; 0 if unknown.
        empty: a bit mask of the cards without shares.
        required: a bit mask of the cards that must be chosen.
        ranks: the remaining amount of each card; empty if all amounts are equal.
        spend: counts steps, and returns False if the limit is reached.
    """

    links: CardLinks
    memory: Sequence[int]
    empty: int
    required: int
    ranks: Sequence[int]
    spend: Callable[[int], bool]

    def find(self, groups: Sequence[CardGroup], free: int) -> Iterator[tuple[int, ...]]:
        """Yield sets of cards that form all groups. Stop early if the limit on steps is reached.

        Args:
            groups: the requested groups.
            free: a bit mask of the cards that may be chosen.
        """
        # Place the groups with the fewest choices first.
        order = sorted(groups, key=lambda group: (-_LEAST_WEIGHTS[group.near], -group.cards, group.socket is None))
        for chosen in self._fill(order, free, {}):
            if not self.required & ~chosen:
                yield list_cards(chosen)

    def _fill(self, groups: Sequence[CardGroup], free: int, sockets: dict[int, int]) -> Iterator[int]:
        if not groups:
            yield 0
            return
        group, rest = groups[0], groups[1:]
        socket = 0 if group.socket is None else sockets.get(group.socket, 0)
        for chosen in self._list_sets(group, self._keep_near(free, socket, SAME_SOCKET)):
            beside = sockets if group.socket is None else {**sockets, group.socket: socket | chosen}
            for others in self._fill(rest, free & ~chosen, beside):
                yield chosen | others

    def _list_sets(self, group: CardGroup, free: int) -> Iterator[int]:
        mins = group.min_memory_bytes
        fitting = sum(1 << card for card in list_cards(free) if self.memory[card] >= mins[-1])
        least = _LEAST_WEIGHTS[group.near]
        cards = range(len(self.memory)) if least else range(0)
        together = tuple(self._keep_near(fitting, 1 << card, least) for card in cards)
        set_request = SetRequest(group.cards, fitting, self.empty, together=together)
        if fitting.bit_count() < group.cards or not self.spend(count_steps(self.links, set_request)):
            return
        for chosen in self._enumerate(set_request):
            if not self.spend(group.cards):
                return
            amounts = sorted((self.memory[card] for card in chosen), reverse=True)
            if all(amount >= least for amount, least in zip(amounts, mins, strict=True)):
                yield sum(1 << card for card in chosen)

    def _enumerate(self, set_request: SetRequest) -> Iterable[tuple[int, ...]]:
        ranked = rank_sets(self.links, set_request, self.ranks)
        # On a node with many cards, only one set is ranked, so all other sets may have to be tried.
        return (
            ranked
            if len(self.memory) <= MOST_CARDS
            else chain(ranked, _list_all(set_request, set_request.free, set_request.count))
        )

    def _keep_near(self, free: int, others: int, least: int) -> int:
        """Return the free cards whose connection to each of the other cards has at least the weight `least`."""
        weights, cards = self.links.weights, list_cards(others)
        return sum(1 << card for card in list_cards(free) if all(weights[card][o] >= least for o in cards if o != card))


def may_be_groups(links: CardLinks, memory: Sequence[int], groups: Sequence[CardGroup], chosen: int) -> bool:
    """Return whether cards can form the requested groups; True if the check takes too many steps.

    Args:
        links: the connections of the node's cards.
        memory: the memory of each card in bytes; 0 if unknown.
        groups: the requested groups.
        chosen: a bit mask of the cards.
    """
    left = _STEPS

    def spend(steps: int) -> bool:
        nonlocal left
        left -= steps
        return left > 0

    search = GroupSearch(links, memory, 0, chosen, (), spend)
    return next(search.find(groups, chosen), None) is not None or left <= 0


def _list_all(
    set_request: SetRequest, free: int, missing: int, chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    if not missing:
        yield chosen
        return
    for card in list_cards(free):
        free &= ~(1 << card)
        if free.bit_count() < missing - 1:
            return
        beside = free & set_request.together[card] if set_request.together else free
        yield from _list_all(set_request, beside, missing - 1, (*chosen, card))
