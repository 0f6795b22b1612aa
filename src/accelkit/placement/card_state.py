"""A card of a node and what is free of it: what placement chooses from."""

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
    """A card and what others hold of it.

    Attributes:
        free_bytes: memory nobody holds; negative where a card was taken over capacity.
        free_compute: thousandths nobody holds.
        empty: nobody holds any of it, so it can be given whole.
        free_amounts: what nobody holds of resources that are numbers and nothing else.
        reserved: for whom it is reserved; None for everybody.
        neighbours: who holds shares of it, of the pods that the request names.
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
        """What one container can have of it: where it is oversubscribed, no more than the card has."""
        # What is free of a card that is not oversubscribed is no more than it has.
        return self.free_bytes if self.card.memory_factor == 1 else min(self.free_bytes, self.card.own_bytes)

    def find_bar(self, container: ContainerRequest) -> MisfitReason | None:
        """Return which rule of sharing keeps a container off the card; None where none does."""
        return find_bar(self.card, self.reserved, self.neighbours, container)


def build_empty_states(cards: Sequence[Card]) -> list[CardState]:
    """Return the cards as if nobody held any of them."""
    return [
        CardState(card, card.capacity_bytes, WHOLE_COMPUTE, empty=True, free_amounts=card.amounts) for card in cards
    ]
