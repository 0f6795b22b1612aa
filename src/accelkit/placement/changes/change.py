"""Changes after which a pod would fit a node, and which of two is the smaller.

In this order: less memory, or less compute, but at least half of what is asked for; a constraint left out; fewer cards,
but at least half of them; a card put back into placement; other pods ended, the fewest first, then those that free
the least memory. What takes more than half of a request comes after all of these. Last stand what has to be
done on the node before anything is known of its cards.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.pod import PodRef


class ChangeKind(StrEnum):
    """Closed set of changes, the smaller ones first."""

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
    """One change after which a pod would fit a node.

    Attributes:
        container: whose request is another one; empty where it is that of several containers, or of none.
        constraint: the field of the request that is left out.
        before: bytes or thousandths of each card, or how many cards, as it is asked for now.
        after: what would fit instead; the most that does.
        on_cards: on how many cards that is asked for.
        cards: IDs of the cards that are put back into placement.
        pods: those that end.
        taken: IDs of the cards that the pod would then get; empty where that is not known.
        size: tells which of two changes of one kind is the smaller.
        proven: whether none of its kind is smaller on this node; False where not all were tried.
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
        """Sort key: the smallest change is the first."""
        nodes_own = _RANKS[self.kind] >= _RANKS[ChangeKind.UNIT]
        large = self.kind in _REDUCTIONS and 2 * self.after < self.before
        return nodes_own or large, _RANKS[self.kind], self.size
