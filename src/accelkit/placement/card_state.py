"""State of a card on a node, which is the input to placement."""

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
        free_bytes: the free memory; negative if the card is over capacity.
        free_compute: the free compute, in thousandths of the card.
        empty: whether no pod has a share of the card, so that it can be assigned as a whole card.
        free_amounts: the free amounts of resources other than memory and compute.
        reserved: the reservation of the card; None if all pods may use it.
        neighbours: the selectors of the request that match pods with shares of the card.
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
        """The memory that one container can get. On an oversubscribed card, the limit is its physical memory."""
        # Without oversubscription, the free memory of a card never exceeds its physical memory.
        return self.free_bytes if self.card.memory_factor == 1 else min(self.free_bytes, self.card.own_bytes)

    def find_bar(self, container: ContainerRequest) -> MisfitReason | None:
        """Return the sharing rule that excludes a container from the card; None if no rule excludes it."""
        return find_bar(self.card, self.reserved, self.neighbours, container)


def build_empty_states(cards: Sequence[Card]) -> list[CardState]:
    """Return the states of the cards on a node without pods."""
    return [
        CardState(card, card.capacity_bytes, WHOLE_COMPUTE, empty=True, free_amounts=card.amounts) for card in cards
    ]
