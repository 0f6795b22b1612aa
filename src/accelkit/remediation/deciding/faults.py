"""Faults of cards, with their names, their identities and the required actions."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from accelkit.model.card import Card, Health
from accelkit.node.health.faults import Fault
from accelkit.vendors.xids import XidAction, find_xid

# The identity does not contain numbers, because error counts increase while the fault remains the same.
_NUMBERS: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 12


@dataclass(frozen=True)
class CardFault:
    """A fault of a card.

    Attributes:
        identity: the key that distinguishes this fault from other faults.
        reason: the code of the fault for conditions and taints, in CamelCase.
        lasting: whether the agent reports the fault until the card is repaired. The identity of such a fault is stable.
        drains: whether pods must be evicted from the card.
        resets: whether a reset may repair the card.
    """

    identity: str
    reason: str
    lasting: bool = False
    drains: bool = True
    resets: bool = True


def find_fault(card: Card) -> CardFault | None:
    """Return the fault of a card; None if it is healthy or its health is unknown."""
    if card.health is not Health.UNHEALTHY:
        return None
    if (fault := Fault.parse(card.fault)) is not None:
        action = find_xid(fault.xid).action
        drains, resets = action is not XidAction.CORDON, action is XidAction.DRAIN_AND_RESET
        return CardFault(card.fault, f"Xid{fault.xid}", lasting=True, drains=drains, resets=resets)
    text = _NUMBERS.sub("#", card.health_reason)
    return CardFault(hashlib.sha256(text.encode()).hexdigest()[:_DIGITS], "CardUnhealthy")


def is_nameable(card: Card) -> bool:
    """Return whether the ID of the card is valid in a cordon annotation."""
    return "," not in card.id and card.id == card.id.strip()
