"""Tells cards that cannot be shared since no driver of their vendor is bound to them."""

from __future__ import annotations

from collections.abc import Sequence

from accelkit.node.discovery.found_card import FoundCard
from accelkit.vendors.profiles import PciDiscovery


def list_missing_drivers(found: Sequence[FoundCard]) -> list[str]:
    """Return a sentence for each card of a host, where none of them has its driver; nothing where one has.

    Beside cards in use, one without a driver is meant for something else: a virtual machine, or nothing at all.

    Args:
        found: the cards of a host.
    """
    unbound = [text for card in found if (text := _describe_unbound(card))]
    return unbound if len(unbound) == len(found) else []


def _describe_unbound(found: FoundCard) -> str | None:
    discovery = found.profile.discovery
    if not isinstance(discovery, PciDiscovery) or not discovery.drivers or found.driver in discovery.drivers:
        return None
    state = f"bound to {found.driver}" if found.driver else "without a driver"
    return f"card {found.card.bdf} ({found.profile.name}) is {state}, and needs {' or '.join(discovery.drivers)}"
