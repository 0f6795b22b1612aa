"""Detection of cards that cannot be shared because they are not bound to a driver of their vendor."""

from __future__ import annotations

from collections.abc import Sequence

from accelkit.node.discovery.found_card import FoundCard
from accelkit.vendors.profiles import PciDiscovery


def list_missing_drivers(found: Sequence[FoundCard]) -> list[str]:
    """Return a sentence for each card of a host if no card is bound to its driver; otherwise, return an empty list.

    If another card of the host is bound to its driver, a card without a driver is probably unused or reserved for a
    virtual machine.
    """
    unbound = [text for card in found if (text := _describe_unbound(card))]
    return unbound if len(unbound) == len(found) else []


def _describe_unbound(found: FoundCard) -> str | None:
    discovery = found.profile.discovery
    if not isinstance(discovery, PciDiscovery) or not discovery.drivers or found.driver in discovery.drivers:
        return None
    state = f"bound to {found.driver}" if found.driver else "without a driver"
    return f"card {found.card.bdf} ({found.profile.name}) is {state}, but requires {' or '.join(discovery.drivers)}"
