"""The health reasons that an agent reports for a lost card. Writers and readers use the same definitions."""

from __future__ import annotations

from typing import Final

from accelkit.model.card import Card, Health

GONE_FROM_NODE: Final = "the card is gone from the node"
GONE_FROM_BUS: Final = "the card is gone from the PCI bus"
SILENT_ON_BUS: Final = "the card does not answer on the PCI bus"
# Agents of several versions may run at the same time, so the list also contains sentences that are no longer written.
_SENTENCES: Final = (GONE_FROM_NODE, GONE_FROM_BUS, SILENT_ON_BUS)


def is_lost(card: Card) -> bool:
    """Return whether a card is missing from its node or bus, or does not respond, regardless of other faults."""
    return card.health is Health.UNHEALTHY and any(each in card.health_reason for each in _SENTENCES)
