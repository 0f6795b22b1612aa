"""Plausibility of the durations of repairs.

A kubelet may write any time into the record of its node, so a duration counts only as far as this replica observed it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# Time for which another replica may have led before. Longer repairs that it began do not count, nor do forged ones.
_BEFORE_SECONDS: Final = 86400.0


class RepairTimes:
    """The time since which each card is observed under remediation, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def observe(self, node: str, cards: Collection[str], now: float) -> None:
        """Record which cards of a node are under remediation now."""
        before = self._since.get(node, {})
        self._since[node] = {card: before.get(card, now) for card in cards}

    def keep(self, nodes: Collection[str]) -> None:
        """Remove all other nodes."""
        self._since = {node: cards for node, cards in self._since.items() if node in nodes}

    def is_plausible(self, node: str, card: str, seconds: float, now: float) -> bool:
        """Return whether a repair that ends now can have taken this long. A negative duration began in the future."""
        observed = now - self._since.get(node, {}).get(card, now)
        return 0 <= seconds <= observed + _BEFORE_SECONDS
