"""Current state of a node, which is compared with the recorded stage results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from accelkit.model.card import Card
from accelkit.model.stage import NodeState

_DIGITS: Final = 16


def describe_state(boot_id: str, kernel: str, cards: Sequence[Card] | None) -> NodeState:
    """Return the state of a node.

    Args:
        boot_id: the field `status.nodeInfo.bootID`; empty if unknown.
        kernel: the field `status.nodeInfo.kernelVersion`; empty if unknown.
        cards: the cards of its inventory; None if the inventory cannot be read.
    """
    if cards is None:
        return NodeState(boot_id=boot_id, kernel=kernel)
    identities = "\n".join(sorted(card.id for card in cards))
    return NodeState(
        boot_id=boot_id,
        kernel=kernel,
        drivers=",".join(sorted({card.driver_version for card in cards if card.driver_version})),
        cards=hashlib.sha256(identities.encode()).hexdigest()[:_DIGITS],
    )
