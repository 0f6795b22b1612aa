"""The policy `smallest-card`: a request goes to the smallest card that takes it, so that large ones stay for others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accelkit.model.request import ContainerRequest
from accelkit.placement.plugged_policies import CardView

ACCELKIT_INTERFACE = 1

_GIB = 2**30


def rank_card(card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:  # noqa: ARG001 - the interface
    """Return what a card has in all: the least is taken first."""
    return card.card.capacity_bytes


def score_node(node: Sequence[CardView], most: int) -> int:
    """Return `most` for cards of 1 GiB, and one less each time that the node's largest card is twice as large."""
    largest = max(card.card.capacity_bytes for card in node)
    return max(0, most - round(math.log2(max(1.0, largest / _GIB))))
