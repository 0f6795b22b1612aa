"""Bindings with unknown outcomes, because a response was lost or a list does not contain the pod."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.extender.fencing import may_retry
from accelkit.extender.pod_watch import log_release
from accelkit.kube.client import ApiClient
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import Holding, ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod, PodRef

log = logging.getLogger(__name__)

# Time after which a Binding usually cannot take effect anymore. The network may still deliver it later, so the pod is
# fenced before its reservation is released.
_SETTLE_SECONDS = 10.0
_SETTLE_INTERVAL_SECONDS = 1.0


class BindingOutcomes:
    """Reservations whose Bindings have unknown outcomes.

    Args:
        api: an open client.
        ledger: the ledger with the reservations.
        feed: the feed that applies the results of reads.
        is_under_way: a function that returns whether a pod is being bound.
        release: a function that releases the reservation of a pod.

    Attributes:
        fence: a function that fences a pod, and returns it; None if this is not possible.
    """

    def __init__(
        self,
        api: ApiClient,
        ledger: Ledger,
        feed: LedgerFeed,
        *,
        is_under_way: Callable[[str], bool],
        release: Callable[[PodRef], None],
    ) -> None:
        self._api, self._ledger, self._feed = api, ledger, feed
        self._is_under_way, self._release = is_under_way, release
        self.fence: Callable[[PodRef], Awaitable[Pod]] | None = None
        # For each pod UID, the time of the last Binding on the clock of `time.monotonic`.
        self._unsettled: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._unsettled)

    def __contains__(self, uid: object) -> bool:
        return uid in self._unsettled

    def note_sent(self, uid: str) -> None:
        """Record that a Binding has just been sent, and that its outcome is unknown."""
        self._unsettled[uid] = time.monotonic()

    def discard(self, uid: str) -> None:
        """Discard the record of a pod whose Binding is known to have failed."""
        self._unsettled.pop(uid, None)

    async def run(self) -> None:
        """Read the pods with unknown outcomes from the API server until cancelled."""
        while True:
            await asyncio.sleep(_SETTLE_INTERVAL_SECONDS)
            for uid in list(self._unsettled):
                held = self._ledger.find_holding(uid)
                if held is None or held.stage is ShareStage.CONFIRMED:
                    self._unsettled.pop(uid, None)
                elif not self._is_under_way(uid):
                    await self.read_outcome(held)

    def recheck(self, held: Holding) -> None:
        """Schedule a read of a holding's pod, because a list does not contain the pod."""
        self._unsettled.setdefault(held.pod.uid, time.monotonic())

    def take_read(self, ref: PodRef, pod: Pod) -> None:
        """Apply a pod that was read with a GET request."""
        if not pod.spec.node_name:
            # The pod may have been deleted after the API server sent the response.
            if ref.uid in self._feed.pending:
                self._feed.take_pod(pod)
            return
        # The pod may have been deleted after the response was sent, so its outcome is unknown until the watch reports
        # the pod.
        self._feed.take_pod(pod)
        self._unsettled.pop(ref.uid, None)
        held = self._ledger.find_holding(ref.uid)
        if held is not None and held.stage is ShareStage.BOUND:
            self._unsettled[ref.uid] = time.monotonic()

    async def read_outcome(self, held: Holding, *, binding: bool = False) -> None:
        """Read the pod of a holding, and apply the outcome; set `binding` if the caller is the bind in progress."""
        ref, pod = held.pod, None
        try:
            pod = await read_pod(self._api, ref)
        except PodGoneError:
            pass
        except ApiError as exc:
            log.info("cannot read pod %s: %s", ref, exc)
            return
        if not self._is_unchanged(held, binding=binding):
            # The holding changed during the request, so the response may be outdated.
            return
        if pod is not None and pod.spec.node_name:
            self.take_read(ref, pod)
            return
        sent = self._unsettled.setdefault(ref.uid, time.monotonic())
        if pod is None or (
            time.monotonic() - sent > _SETTLE_SECONDS and await self._is_ineffective(held, binding=binding)
        ):
            log_release(held)
            self._release(ref)
            self._unsettled.pop(ref.uid, None)

    async def _is_ineffective(self, held: Holding, *, binding: bool) -> bool:
        """Fence the pod of a holding; return whether no Binding has taken effect or can still take effect."""
        if self.fence is None:
            return True
        try:
            pod = await self.fence(held.pod)
        except PodGoneError:
            return self._is_unchanged(held, binding=binding)
        except ApiError as exc:
            log.info("cannot fence pod %s: %s", held.pod, exc)
            # If the API server rejects the write, only the time limit protects against a late Binding.
            return not may_retry(exc) and self._is_unchanged(held, binding=binding)
        if not self._is_unchanged(held, binding=binding):
            return False
        self.take_read(held.pod, pod)
        return not pod.spec.node_name

    def _is_unchanged(self, held: Holding, *, binding: bool) -> bool:
        """Return whether a holding is still current, and no other bind of its pod is in progress."""
        return self._ledger.find_holding(held.pod.uid) is held and (binding or not self._is_under_way(held.pod.uid))
