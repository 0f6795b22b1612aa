"""Waking of rejected pods through an annotation on a node whose cards were freed or returned to service.

kube-scheduler tries a rejected pod again after an event in the cluster. If the event occurs before the ledger is
updated, the pod is rejected again, and kube-scheduler does not retry it for several minutes. Therefore, the leader
changes an annotation on the node after its ledger has changed. Since Kubernetes 1.30, such a change is an event that
wakes pods.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import Counter

from accelkit.errors import ApiError
from accelkit.extender.waking.announcements import Announcements, Waiting
from accelkit.extender.waking.namespace_wakeups import NamespaceWakeups
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.freed import FreedNodes
from accelkit.ledger.ledger import Ledger
from accelkit.model.keys import FREED_AT_ANNOTATION
from accelkit.placement.policies import AnyPolicy

log = logging.getLogger(__name__)

_TURN_SECONDS = 0.5
# Delay before the first check. It is short because changes between the first lists and the first check are not
# detected.
_FIRST_TURN_SECONDS = 0.02


class Waker:
    """Component that announces freed nodes while pods that may fit these nodes are waiting.

    Args:
        api: an open client.
        ledger: the ledger whose changes are announced.
        feed: the feed with the pods without a node.
        policy: the policy that ranks cards if the pod does not name one.
        read: a function that returns whether the first lists have been read; the objects in these lists are not
            changes.
        leads: a function that returns whether this replica may write.
        writes: the counter of the writes, by `result`.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        api: ApiClient,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        *,
        read: Callable[[], bool],
        leads: Callable[[], bool],
        writes: Counter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._feed = feed
        self._read = read
        self._leads = leads
        self._writes = writes
        self._clock = clock
        self._freed = FreedNodes(ledger)
        self._waiting = Waiting(ledger, policy)
        self._wakeups = NamespaceWakeups(ledger, self._waiting)
        self._announcements = Announcements()
        self._begun = False
        self._failing = False

    async def run(self) -> None:
        """Announce freed nodes until cancelled."""
        while True:
            await asyncio.sleep(_TURN_SECONDS if self._begun else _FIRST_TURN_SECONDS)
            await self.announce_due()

    async def announce_due(self) -> None:
        """Check the ledger for changes once, and write the announcements that are due."""
        if not self._begun:
            self._begin()
            return
        freed = self._freed.find()
        # Record changes even if another replica is the leader. If the leader fails, this replica announces the changes
        # that the leader did not announce.
        self._announcements.note_freed(freed, self._clock())
        self._waiting.update(self._feed.pending)
        self._announcements.note_freed(self._wakeups.find(self._clock()), self._clock())
        for name in self._announcements.list_due(self._clock()):
            if self._leads() and self._waiting.fits(name) and not await self._announce(name):
                return

    def _begin(self) -> None:
        self._begun = self._read()
        if self._begun:
            self._freed.find()
            # Create both series with the value 0.
            for result in ("written", "failed"):
                self._writes.labels(result)

    async def _announce(self, name: str) -> bool:
        """Write the annotation on a node; return False if the API server does not respond."""
        self._announcements.note_begun(name, self._clock())
        text = datetime.now(UTC).isoformat(timespec="microseconds")
        try:
            await self._api.patch(build_node_path(name), {"metadata": {"annotations": {FREED_AT_ANNOTATION: text}}})
        except ApiError as exc:
            self._writes.labels("failed").inc()
            if exc.not_found:
                self._announcements.note_written(name)
                return True
            self._announcements.note_failed(name, self._clock())
            if not self._failing:
                log.warning("cannot announce to kube-scheduler that node %s was freed, will retry: %s", name, exc)
            self._failing = True
            return not exc.unanswered
        self._writes.labels("written").inc()
        self._announcements.note_written(name)
        self._failing = False
        return True
