"""What decides about groups in common: controller and held binds are made with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from accelkit.extender.groups.batches import Batches
from accelkit.extender.groups.reserving import GroupReserver
from accelkit.extender.groups.roster import Roster
from accelkit.kube.client import ApiClient
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger


class Changes:
    """Wakes those who wait for something to change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def note(self) -> None:
        """Wake them all."""
        self._event.set()
        self._event = asyncio.Event()

    def get(self) -> asyncio.Event:
        """Return what is set by the next change from now on."""
        return self._event


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What decides about groups in common.

    Attributes:
        api: an open client.
        ledger: where cards are reserved.
        feed: knows what pods that wait ask for.
        roster: who belongs to which group.
        reserver: finds cards.
        batches: what is reserved.
        changes: tell of changes.
    """

    api: ApiClient
    ledger: Ledger
    feed: LedgerFeed
    roster: Roster
    reserver: GroupReserver
    batches: Batches
    changes: Changes
