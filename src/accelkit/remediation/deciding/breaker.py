"""Circuit breaker that stops remediation if many nodes fail together, because cards are then not the likely cause."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

# In a cluster with one node, a single failure affects all nodes, so it is not evidence of a common cause.
_FEWEST: Final = 2


class Breaker:
    """Breaker that counts the nodes whose cards failed recently. Only an administrator can close an open breaker.

    Args:
        share: the fraction of the nodes with cards above which the breaker opens.
        seconds: the time for which a node is counted after its failure was first observed.
    """

    def __init__(self, share: float, seconds: float) -> None:
        self._share, self._seconds = share, seconds
        self._failed_at: dict[str, float] = {}
        self._failing: AbstractSet[str] = frozenset()
        self.reason = ""

    @property
    def open(self) -> bool:
        """Whether the breaker is open."""
        return bool(self.reason)

    def observe(self, failing: AbstractSet[str], nodes: int, now: float) -> bool:
        """Count the nodes with a new fault; return whether this call has opened the breaker.

        Args:
            failing: the names of the nodes with a new fault. No action has been taken for these faults yet.
            nodes: the number of nodes with cards.
            now: the current time on a monotonic clock, in seconds.
        """
        for name in failing - self._failing:
            self._failed_at[name] = now
        self._failing = frozenset(failing)
        self._failed_at = {name: at for name, at in self._failed_at.items() if now - at < self._seconds}
        count = len(self._failed_at)
        if self.open or count < _FEWEST or count <= self._share * nodes:
            return False
        self.reason = f"cards of {count} of {nodes} nodes failed within {self._seconds:.0f} s"
        return True

    def hold(self, reason: str) -> None:
        """Restore an open breaker that another replica has stored."""
        self.reason = reason

    def close(self) -> None:
        """Close the breaker and discard earlier failures, because an administrator has fixed the cause."""
        self.reason = ""
        self._failed_at.clear()
