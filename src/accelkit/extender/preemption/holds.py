"""Claims on cards for pods with the condition `accelkit.io/cards-held`.

A claim ends when the pod is bound or deleted, or when the hold expires.

The condition is written before the first eviction, so that the watch and each list of pods contain it before the cards
are free. All replicas of the extender read the condition, and a restarted replica reads it with the first list.

This module performs no I/O.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from accelkit.ledger.claims import claim
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.logs import Facts, RepeatLog
from accelkit.model.hold import Hold
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import AnyPolicy

log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 0.5


class Holds:
    """Claims that the conditions of pods request.

    Args:
        ledger: the ledger with the claims.
        feed: the feed with the waiting pods.
        policy: the policy that ranks cards if the pod does not name one.
        wall_clock: a function that returns the seconds since 1970.
    """

    def __init__(
        self, ledger: Ledger, feed: LedgerFeed, policy: AnyPolicy, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger, self._feed, self._policy, self._wall_clock = ledger, feed, policy, wall_clock
        # The node of each claim, by the UID of the pod.
        self._claimed: dict[str, str] = {}
        self._repeats = RepeatLog(log)

    async def run(self) -> None:
        """Review all holds periodically until cancelled, because holds expire, and a pod may fit later."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            self.review()

    def review(self) -> None:
        """Review the hold of each pod, for example after a list of pods or nodes."""
        held = (uid for uid, each in self._feed.pending.items() if each.pod.hold is not None)
        for uid in {*self._claimed, *held}:
            self.note(uid)

    def note(self, uid: str) -> None:
        """Review the hold of one pod, for example after an event about the pod."""
        pending, node = self._feed.pending.get(uid), self._claimed.get(uid)
        hold = None if pending is None else self._find_hold(pending)
        held = self._ledger.find_holding(uid)
        if node is not None and (held is None or held.stage is not ShareStage.CLAIMED or held.node != node):
            # The pod is bound, being bound, or deleted.
            del self._claimed[uid]
            node = None
        if node is not None and (hold is None or hold.node != node):
            del self._claimed[uid]
            self._ledger.release(uid)
            log.info(Facts("hold ended", uid=uid, node=node))
        if pending is not None and hold is not None and self._ledger.find_holding(uid) is None:
            self._claim(pending, hold)

    def _find_hold(self, pending: Pending) -> Hold | None:
        hold = pending.pod.hold
        if hold is None or pending.request is None or pending.pod.ending:
            return None
        return hold if hold.lasts(self._wall_clock()) else None

    def _claim(self, pending: Pending, hold: Hold) -> None:
        pod = pending.pod
        if pending.request is None:
            return
        try:
            claim(self._ledger, pod.ref, hold.node, pending.request, self._policy, gone=hold.evicted, labels=pod.labels)
        except MisfitError as exc:
            reason = exc.misfit.reason
            self._repeats.warn(
                pod.ref.uid, f"cannot hold cards of node {hold.node} for pod {pod.ref}, will retry: {reason}"
            )
            return
        self._claimed[pod.ref.uid] = hold.node
        log.info(Facts("cards held", pod=str(pod.ref), uid=pod.ref.uid, node=hold.node, until=hold.until.isoformat()))
