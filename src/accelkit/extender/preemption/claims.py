"""Claims for preempting pods. A claim lasts until its pod is bound or deleted, or until it expires.

This module performs no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from accelkit.ledger.claims import claim, is_blocked
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.object_meta import MOST_LEAVING_SECONDS
from accelkit.placement.policies import AnyPolicy

# Duration of a claim on free cards. kube-scheduler tries a pod within seconds after the pod is woken.
FREE_SECONDS: Final = 60.0
# Duration of a claim while the evicted pods still hold the cards. A pod that takes longer to terminate is considered
# stuck.
LEAVING_SECONDS: Final = MOST_LEAVING_SECONDS


@dataclass(slots=True)
class _Kept:
    made_at: float
    free_since: float | None = None


class Claims:
    """Claims that are stored in this process.

    Args:
        ledger: the ledger with the claims.
        feed: the feed with the waiting pods.
        policy: the policy that ranks cards if the pod does not name one.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self, ledger: Ledger, feed: LedgerFeed, policy: AnyPolicy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger, self._feed, self._policy, self._clock = ledger, feed, policy, clock
        self._kept: dict[str, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def make(self, pending: Pending, node: str, gone: Collection[str]) -> None:
        """Claim the cards that a pod gets on a node after other pods have terminated.

        Raises:
            MisfitError: the pod would not fit, or would exceed its namespace's quota.
        """
        if pending.request is not None:
            pod = pending.pod
            claim(self._ledger, pod.ref, node, pending.request, self._policy, gone=gone, labels=pod.labels)
            self._kept[pod.ref.uid] = _Kept(self._clock())

    def drop(self, uid: str) -> None:
        """Release the claim of a pod, but not the reservation of a Binding in progress."""
        self._kept.pop(uid, None)
        held = self._ledger.find_holding(uid)
        if held is not None and held.stage is ShareStage.CLAIMED:
            self._ledger.release(uid)

    def review(self, *, leads: bool) -> list[str]:
        """Release expired and unnecessary claims; return the UIDs of the pods whose claims expired.

        Args:
            leads: whether this replica is the leader.
        """
        late = []
        for uid, kept in list(self._kept.items()):
            held, pending = self._ledger.find_holding(uid), self._feed.pending.get(uid)
            if held is None or held.stage is not ShareStage.CLAIMED:
                # The pod is bound, being bound, or deleted.
                del self._kept[uid]
            elif not leads or pending is None or pending.request is None or pending.pod.ending:
                self.drop(uid)
            elif self._is_late(kept, blocked=is_blocked(self._ledger, held, pending.request, self._policy)):
                self.drop(uid)
                late.append(uid)
        return late

    def _is_late(self, kept: _Kept, *, blocked: bool) -> bool:
        now = self._clock()
        if blocked:
            kept.free_since = None
            return now - kept.made_at > LEAVING_SECONDS
        if kept.free_since is None:
            kept.free_since = now
        return now - kept.free_since > FREE_SECONDS
