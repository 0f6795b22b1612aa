"""Policy `smallest-card`, which selects the smallest card on which a request fits, to keep large cards free."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accelkit.model.request import ContainerRequest
from accelkit.placement.plugged_policies import CardView

ACCELKIT_INTERFACE = 1

_GIB = 2**30


def rank_card(card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:  # noqa: ARG001 - the interface
    """Return the capacity of the card. The card with the lowest value is selected first."""
    return card.card.capacity_bytes


def score_node(node: Sequence[CardView], most: int) -> int:
    """Return `most` if the largest card of the node has 1 GiB, and 1 less for each doubling of this size."""
    largest = max(card.card.capacity_bytes for card in node)
    return max(0, most - round(math.log2(max(1.0, largest / _GIB))))
