"""Changes that would make a pod fit a node, and their order.

The order is:

1. less memory or less compute, but at least half of the request
2. one omitted constraint
3. fewer cards, but at least half of the request
4. a card that returns to service
5. the termination of other pods: the fewest pods first, then the pods that free the least memory
6. a reduction of a request by more than half
7. a change that a node requires before its cards are known
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.pod import PodRef


class ChangeKind(StrEnum):
    """Kinds of changes, from the smallest to the largest."""

    LESS_MEMORY = "less_memory"
    LESS_COMPUTE = "less_compute"
    WITHOUT_CONSTRAINT = "without_constraint"
    FEWER_CARDS = "fewer_cards"
    CARD_BACK = "card_back"
    PODS_ENDED = "pods_ended"
    UNIT = "unit_of_the_cluster"
    INVENTORY = "inventory_readable"
    SHARED = "node_shared"


_RANKS: Final = {kind: rank for rank, kind in enumerate(ChangeKind)}
_REDUCTIONS: Final = frozenset({ChangeKind.LESS_MEMORY, ChangeKind.LESS_COMPUTE, ChangeKind.FEWER_CARDS})


class Change(msgspec.Struct, frozen=True):
    """A change that would make a pod fit a node.

    Attributes:
        container: the container whose request changes; empty if no request or several requests change.
        constraint: the field of the request that is omitted.
        before: the current request, in bytes or thousandths per card, or as a number of cards.
        after: the largest amount that would fit, in the same unit.
        on_cards: the number of cards for which the amount is requested.
        cards: the IDs of the cards that return to service.
        pods: the pods that have to terminate.
        taken: the IDs of the cards that the pod would get after the change; empty if unknown.
        size: the sort key among changes of the same kind. A smaller change has a smaller key.
        proven: whether this is certainly the smallest change of its kind on this node; False if not all changes were
            tried.
    """

    kind: ChangeKind
    container: str = ""
    constraint: str = ""
    before: int = 0
    after: int = 0
    on_cards: int = 1
    cards: tuple[str, ...] = ()
    pods: tuple[PodRef, ...] = ()
    taken: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)
    proven: bool = True

    @property
    def order(self) -> tuple[bool, int, tuple[int, int]]:
        """The sort key, which is smallest for the smallest change."""
        nodes_own = _RANKS[self.kind] >= _RANKS[ChangeKind.UNIT]
        large = self.kind in _REDUCTIONS and 2 * self.after < self.before
        return nodes_own or large, _RANKS[self.kind], self.size
