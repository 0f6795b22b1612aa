"""Plausibility check for the durations of repairs.

A kubelet may write any time into its node's record, so a duration counts only if it is consistent with what this
replica observed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# The maximum part of a repair that is attributed to a previous leader. Longer durations, including forged ones, do not
# count.
_BEFORE_SECONDS: Final = 86400.0


class RepairTimes:
    """The time at which this replica first observed each card under remediation, on a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def observe(self, node: str, cards: Collection[str], now: float) -> None:
        """Record the cards of a node that are currently under remediation."""
        before = self._since.get(node, {})
        self._since[node] = {card: before.get(card, now) for card in cards}

    def keep(self, nodes: Collection[str]) -> None:
        """Remove all nodes except these."""
        self._since = {node: cards for node, cards in self._since.items() if node in nodes}

    def is_plausible(self, node: str, card: str, seconds: float, now: float) -> bool:
        """Return whether this duration is plausible for a repair that ends now; negative durations are not."""
        observed = now - self._since.get(node, {}).get(card, now)
        return 0 <= seconds <= observed + _BEFORE_SECONDS
