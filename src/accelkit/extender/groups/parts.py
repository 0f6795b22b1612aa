"""Components that the group controller and the held binds share."""

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
    """Notifications of changes to one group or to any group."""

    def __init__(self) -> None:
        self._any = asyncio.Event()
        self._of: dict[GroupKey, asyncio.Event] = {}

    def note(self, *keys: GroupKey) -> None:
        """Wake the tasks that wait for a change of these groups or of any group; without arguments, wake all tasks."""
        self._any.set()
        self._any = asyncio.Event()
        for key in keys or tuple(self._of):
            if (event := self._of.pop(key, None)) is not None:
                event.set()

    def get(self, key: GroupKey | None = None) -> asyncio.Event:
        """Return the event that is set at the next change of a group or, without a key, of any group."""
        return self._any if key is None else self._of.setdefault(key, asyncio.Event())


@dataclass(frozen=True, slots=True)
class GroupParts:
    """Components that the group controller and the held binds share.

    Attributes:
        api: an open client.
        ledger: the ledger with the reservations.
        feed: the feed with the requests of waiting pods.
        group_index: the members of groups.
        reserver: the component that reserves cards.
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
