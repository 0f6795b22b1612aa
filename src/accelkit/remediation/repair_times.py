"""Plausibility check for the durations of repairs.

A kubelet may write any time into its node's record, so a duration counts only if it is consistent with what this
replica observed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# How long another replica may have been the leader before. Longer repairs that it began do not count, and neither do
# forged ones.
_BEFORE_SECONDS: Final = 86400.0


class RepairTimes:
    """When this replica first observed each card under remediation, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def observe(self, node: str, cards: Collection[str], now: float) -> None:
        """Record which cards of a node are currently under remediation."""
        before = self._since.get(node, {})
        self._since[node] = {card: before.get(card, now) for card in cards}

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all nodes except these."""
        self._since = {node: cards for node, cards in self._since.items() if node in nodes}

    def is_plausible(self, node: str, card: str, seconds: float, now: float) -> bool:
        """Return whether a repair that ends now can have taken this long; a negative duration is not plausible."""
        observed = now - self._since.get(node, {}).get(card, now)
        return 0 <= seconds <= observed + _BEFORE_SECONDS
