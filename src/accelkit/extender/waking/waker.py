"""Wakes pods that kube-scheduler has refused, by one annotation on the node whose cards came back or were freed.

kube-scheduler tries a refused pod again when something happens to the cluster. It may do so before our ledger knows of
it, is refused again, and then leaves the pod alone for minutes. So the leader writes on the node after its ledger has
changed: an annotation that changes is something that happens to the cluster (from Kubernetes 1.30 on).
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
# What happens between the first lists and the first look is taken for what was there, so that look comes early.
_FIRST_TURN_SECONDS = 0.02


class Waker:
    """Announces freed nodes while pods wait that fit them.

    Args:
        api: an open client.
        ledger: whose changes are announced.
        feed: knows the pods without a node.
        policy: ranks cards where the pod does not say.
        read: returns whether the cluster was read; what the first lists show is no change.
        leads: returns whether this replica may write.
        writes: counts them, by `result`.
        clock: seconds on a clock that never jumps.
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
        self._stirred = NamespaceWakeups(ledger, self._waiting)
        self._announcements = Announcements()
        self._begun = False
        self._failing = False

    async def run(self) -> None:
        """Announce until cancelled."""
        while True:
            await asyncio.sleep(_TURN_SECONDS if self._begun else _FIRST_TURN_SECONDS)
            await self.announce_due()

    async def announce_due(self) -> None:
        """Look at the ledger once, and write what is due."""
        if not self._begun:
            self._begin()
            return
        freed = self._freed.find()
        # Also where another replica leads: what it may not have written is ours once it has ended.
        self._announcements.note_freed(freed, self._clock())
        self._waiting.update(self._feed.pending)
        self._announcements.note_freed(self._stirred.find(self._clock()), self._clock())
        for name in self._announcements.list_due(self._clock()):
            if self._leads() and self._waiting.fits(name) and not await self._announce(name):
                return

    def _begin(self) -> None:
        self._begun = self._read()
        if self._begun:
            self._freed.find()
            # Both are shown from now on, at 0.
            for result in ("written", "failed"):
                self._writes.labels(result)

    async def _announce(self, name: str) -> bool:
        """Write on a node; False where the API server does not answer."""
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
                log.warning("kube-scheduler cannot be told that node %s was freed, tried again: %s", name, exc)
            self._failing = True
            return not exc.unanswered
        self._writes.labels("written").inc()
        self._announcements.note_written(name)
        self._failing = False
        return True
