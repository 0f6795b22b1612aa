"""State of a card on a node: the card and its free amounts, from which placement chooses."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from accelkit.model.amounts import Amounts
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.sharing.bars import NOBODY, Neighbours, Reserved, find_bar


class CardState(msgspec.Struct, frozen=True, gc=False):
    """A card and its free amounts.

    Attributes:
        free_bytes: memory that no pod holds; negative if the card is over capacity.
        free_compute: thousandths of compute that no pod holds.
        empty: whether no pod holds any part of it, so that it can be assigned as a whole.
        free_amounts: free amounts of resources other than memory and compute.
        reserved: its reservation; None if all pods may use it.
        neighbours: which of the pods selected by the request hold shares of it.
    """

    card: Card
    free_bytes: int
    free_compute: int
    empty: bool
    free_amounts: Amounts = ()
    reserved: Reserved | None = None
    neighbours: Neighbours = NOBODY

    @property
    def room_bytes(self) -> int:
        """Memory that one container can get: on an oversubscribed card, at most the card's physical memory."""
        # Without oversubscription, the free memory of a card is at most its own memory.
        return self.free_bytes if self.card.memory_factor == 1 else min(self.free_bytes, self.card.own_bytes)

    def find_bar(self, container: ContainerRequest) -> MisfitReason | None:
        """Return the sharing rule that excludes a container from the card; None if no rule does."""
        return find_bar(self.card, self.reserved, self.neighbours, container)


def build_empty_states(cards: Sequence[Card]) -> list[CardState]:
    """Return the states of the cards without any pods."""
    return [
        CardState(card, card.capacity_bytes, WHOLE_COMPUTE, empty=True, free_amounts=card.amounts) for card in cards
    ]
