"""The sentences by which an agent says that a card is lost, for who writes them and who knows cards by them."""

from __future__ import annotations

from typing import Final

from accelkit.model.card import Card, Health

GONE_FROM_NODE: Final = "the card is gone from the node"
GONE_FROM_BUS: Final = "the card is gone from the PCI bus"
SILENT_ON_BUS: Final = "the card does not answer on the PCI bus"
# Agents of several versions may run side by side: a sentence that is written no more stays known here.
_SENTENCES: Final = (GONE_FROM_NODE, GONE_FROM_BUS, SILENT_ON_BUS)


def is_lost(card: Card) -> bool:
    """Return whether a card left its node or its bus, or does not answer there, whatever else is wrong with it."""
    return card.health is Health.UNHEALTHY and any(each in card.health_reason for each in _SENTENCES)
