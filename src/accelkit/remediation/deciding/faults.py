"""What a card's fault is called, what tells it from another one, and what it asks for."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from accelkit.model.card import Card, Health
from accelkit.node.health.faults import Fault
from accelkit.vendors.xids import XidAction, find_xid

# Counts of errors grow while the fault stays the same.
_NUMBERS: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 12


@dataclass(frozen=True)
class CardFault:
    """A fault of a card.

    Attributes:
        identity: what tells it from another one.
        reason: CamelCase code, for conditions and taints.
        lasting: whether the agent keeps it until the card is mended, so that it changes by nothing else.
        drains: whether pods are to leave the card.
        resets: whether a reset may mend it.
    """

    identity: str
    reason: str
    lasting: bool = False
    drains: bool = True
    resets: bool = True


def find_fault(card: Card) -> CardFault | None:
    """Return the fault of a card; None where it is healthy, or nobody knows."""
    if card.health is not Health.UNHEALTHY:
        return None
    if (fault := Fault.parse(card.fault)) is not None:
        action = find_xid(fault.xid).action
        drains, resets = action is not XidAction.CORDON, action is XidAction.DRAIN_AND_RESET
        return CardFault(card.fault, f"Xid{fault.xid}", lasting=True, drains=drains, resets=resets)
    told = _NUMBERS.sub("#", card.health_reason)
    return CardFault(hashlib.sha256(told.encode()).hexdigest()[:_DIGITS], "CardUnhealthy")


def is_nameable(card: Card) -> bool:
    """Return whether a cordon can name the card by its id."""
    return "," not in card.id and card.id == card.id.strip()
