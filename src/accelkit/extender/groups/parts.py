"""What decides about groups in common: controller and held binds are made with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from accelkit.extender.groups.batches import Batches
from accelkit.extender.groups.group_index import GroupIndex
from accelkit.extender.groups.membership import GroupKey
from accelkit.extender.groups.reserving import GroupReserver
from accelkit.kube.client import ApiClient
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger


class Changes:
    """Wakes those who wait for something to change: of all groups, or of one."""

    def __init__(self) -> None:
        self._any = asyncio.Event()
        self._of: dict[GroupKey, asyncio.Event] = {}

    def note(self, *keys: GroupKey) -> None:
        """Wake those who wait for one of these groups, and who waits for any; without a group, all."""
        self._any.set()
        self._any = asyncio.Event()
        for key in keys or tuple(self._of):
            if (event := self._of.pop(key, None)) is not None:
                event.set()

    def get(self, key: GroupKey | None = None) -> asyncio.Event:
        """Return what is set by the next change from now on, of one group or of any."""
        return self._any if key is None else self._of.setdefault(key, asyncio.Event())


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What decides about groups in common.

    Attributes:
        api: an open client.
        ledger: where cards are reserved.
        feed: knows what pods that wait ask for.
        group_index: who belongs to which group.
        reserver: finds cards.
        batches: what is reserved.
        changes: tell of changes.
    """

    api: ApiClient
    ledger: Ledger
    feed: LedgerFeed
    group_index: GroupIndex
    reserver: GroupReserver
    batches: Batches
    changes: Changes
