"""Believes how long repairs took as far as this replica has seen them: a kubelet may write any time into its record."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

# What another replica saw before this one led. A longer repair that it began is left out, and so is a forged one.
_BEFORE_SECONDS: Final = 86400.0


class RepairTimes:
    """Since when each card has been seen under remediation, in seconds on a clock that never jumps."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def look(self, node: str, cards: Collection[str], now: float) -> None:
        """Take into account which cards of a node are under remediation now."""
        before = self._since.get(node, {})
        self._since[node] = {card: before.get(card, now) for card in cards}

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all other nodes."""
        self._since = {node: cards for node, cards in self._since.items() if node in nodes}

    def believes(self, node: str, card: str, seconds: float, now: float) -> bool:
        """Return whether a repair that ends now can have taken so long; a negative one began in the future."""
        seen = now - self._since.get(node, {}).get(card, now)
        return 0 <= seconds <= seen + _BEFORE_SECONDS
