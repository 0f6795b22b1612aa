"""Plausibility check for repair durations.

A kubelet can write any value to the record of its node. Therefore, a duration is accepted only if it is consistent with
the observations of this replica.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# The maximum time of a repair that is accepted in addition to the observed time, because a previous leader may have
# observed it. Longer durations may be forged, and are rejected.
_BEFORE_SECONDS: Final = 86400.0


class RepairTimes:
    """The times at which this replica first observed the cards under remediation, on a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def observe(self, node: str, cards: Collection[str], now: float) -> None:
        """Record the cards of a node that are currently under remediation."""
        before = self._since.get(node, {})
        self._since[node] = {card: before.get(card, now) for card in cards}

    def keep(self, nodes: Collection[str]) -> None:
        """Discard the data of all nodes except these."""
        self._since = {node: cards for node, cards in self._since.items() if node in nodes}

    def is_plausible(self, node: str, card: str, seconds: float, now: float) -> bool:
        """Return whether this duration is plausible for a repair that ends now. Negative durations are implausible."""
        observed = now - self._since.get(node, {}).get(card, now)
        return 0 <= seconds <= observed + _BEFORE_SECONDS
