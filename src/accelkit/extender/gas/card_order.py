"""Card order of Intel's GPU Aware Scheduling, as a policy.

The policy selects the first card by name that fits; card10 precedes card2. The node's preferred card precedes all other
cards. If a resource is balanced, the card with the lowest usage of this resource precedes all other cards instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accelkit.model.request import ContainerRequest
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.plugged_policies import CardView
from accelkit.vendors.dialects import load_own_dialect

_RESOURCES: Final = load_own_dialect("gas").resources
# Greater than the number of cards on any node.
_PLACES: Final = 1 << 12


class CardOrder:
    """Policy that ranks cards by name, and by the usage of one resource.

    Args:
        balanced_resource: the name of the resource, without `gpu.intel.com/`; empty for none.
    """

    def __init__(self, balanced_resource: str = "") -> None:
        self._balanced = f"{_RESOURCES.amounts}{balanced_resource}" if balanced_resource else ""

    def rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:  # noqa: ARG002 - a policy's signature
        """Return the position of a card in the order of the policy."""
        name = _name(card)
        place = sum(_name(other) < name for other in node)
        if self._balanced:
            return self._count_used(card) * _PLACES + place
        return -1 if card.card.preferred else place

    def score_node(self, node: Sequence[CardView], most: int) -> int:  # noqa: ARG002 - the same
        """Return the same score for every node, so that kube-scheduler chooses the node."""
        return 0

    def _count_used(self, card: CardView) -> int:
        if self._balanced == _RESOURCES.bytes:
            return card.card.capacity_bytes - card.free_bytes
        if self._balanced == _RESOURCES.compute:
            return WHOLE_COMPUTE - card.free_compute
        return dict(card.card.amounts).get(self._balanced, 0) - dict(card.free_amounts).get(self._balanced, 0)


def _name(card: CardView) -> str:
    return card.card.id if card.card.number is None else f"card{card.card.number}"
