"""Shared parts of the controller of groups and of the held binds."""

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


class GroupChanges:
    """Notifications of changes, of all groups or of one."""

    def __init__(self) -> None:
        self._any = asyncio.Event()
        self._of: dict[GroupKey, asyncio.Event] = {}

    def note(self, *keys: GroupKey) -> None:
        """Wake the tasks that wait for one of these groups, or for any; without a group, all tasks."""
        self._any.set()
        self._any = asyncio.Event()
        for key in keys or tuple(self._of):
            if (event := self._of.pop(key, None)) is not None:
                event.set()

    def get(self, key: GroupKey | None = None) -> asyncio.Event:
        """Return the event that the next change sets, of one group or of any."""
        return self._any if key is None else self._of.setdefault(key, asyncio.Event())


@dataclass(frozen=True, slots=True)
class GroupParts:
    """Shared parts of the controller of groups and of the held binds.

    Attributes:
        api: an open client.
        ledger: the ledger with the reservations.
        feed: provides the requests of waiting pods.
        group_index: the members of groups.
        reserver: finds cards.
        batches: the reservations of groups.
        changes: notifications of changes.
    """

    api: ApiClient
    ledger: Ledger
    feed: LedgerFeed
    group_index: GroupIndex
    reserver: GroupReserver
    batches: Batches
    changes: GroupChanges
