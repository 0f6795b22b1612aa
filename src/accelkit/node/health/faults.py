"""Faults: errors after which a card accepts no new shares until it is repaired, even if no further errors occur."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from accelkit.vendors.xids import XidAction, find_xid

_TEXT: Final = re.compile(r"xid ([0-9]{1,9}) at ([0-9a-f.-]*)", re.ASCII)
_REMEDIES: Final = {
    XidAction.CORDON: "inspect the card",
    XidAction.DRAIN_AND_RESET: "drain the node and reset the card",
    XidAction.REPLACE: "replace the card",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An XID that excludes a card from placement.

    Attributes:
        xid: the number of the error.
        driver_start: the identifier, from the card's signals, of the driver start after which the error occurred.
    """

    xid: int
    driver_start: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the text that `__str__` returns, and return the fault; return None for any other text."""
        match = _TEXT.fullmatch(text)
        return cls(int(match[1]), match[2]) if match else None

    def __str__(self) -> str:
        return f"xid {self.xid} at {self.driver_start}"

    def is_repaired(self, driver_start: str) -> bool:
        """Return whether a restart can repair the fault, and the driver or machine has restarted since the error."""
        known = bool(self.driver_start and driver_start) and not driver_start.endswith(".")
        return known and self.driver_start != driver_start and find_xid(self.xid).action is not XidAction.REPLACE

    def explain(self) -> str:
        """Return a sentence that describes the error and its remedy."""
        return explain_xid(self.xid)


def explain_xid(number: int) -> str:
    """Return a sentence that describes the meaning of an XID and its remedy."""
    found = find_xid(number)
    remedy = _REMEDIES.get(found.action)
    return f"the driver reported XID {number} ({found.meaning}){f': {remedy}' if remedy else ''}"
