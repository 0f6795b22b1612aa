"""Stops all remediation where too many nodes fail together, which is a fault of something else than their cards."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

# One node is all of a cluster that has one: that says nothing.
_FEWEST: Final = 2


class Breaker:
    """Counts nodes whose cards have failed lately; once it is open, only a person closes it.

    Args:
        share: of the nodes with cards; more than these open it.
        seconds: how long a node counts after it was first seen to fail.
    """

    def __init__(self, share: float, seconds: float) -> None:
        self._share, self._seconds = share, seconds
        self._failed_at: dict[str, float] = {}
        self._failing: AbstractSet[str] = frozenset()
        self.why = ""

    @property
    def open(self) -> bool:
        """Whether nothing may be done."""
        return bool(self.why)

    def observe(self, failing: AbstractSet[str], nodes: int, now: float) -> bool:
        """Take the nodes into account that have a failed card nobody knew of; return whether it has just opened.

        Args:
            failing: their names.
            nodes: how many nodes have cards.
            now: seconds, never backwards.
        """
        for name in failing - self._failing:
            self._failed_at[name] = now
        self._failing = frozenset(failing)
        self._failed_at = {name: at for name, at in self._failed_at.items() if now - at < self._seconds}
        count = len(self._failed_at)
        if self.open or count < _FEWEST or count <= self._share * nodes:
            return False
        self.why = f"cards of {count} of {nodes} nodes failed within {self._seconds:.0f} s"
        return True

    def hold(self, why: str) -> None:
        """Be open, as another replica left it."""
        self.why = why

    def close(self) -> None:
        """Believe a person that the cause is gone: what has failed before counts no more."""
        self.why = ""
        self._failed_at.clear()
