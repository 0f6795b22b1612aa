"""Bindings whose outcome is unknown: an answer was lost, or a list does not show the pod. A GET of the pod decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.extender.pod_watch import log_release
from accelkit.kube.client import ApiClient
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import Holding, Stage
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod, PodRef

log = logging.getLogger(__name__)

# So long after a Binding was sent it can no longer take effect.
_SETTLE_SECONDS = 10.0
_SETTLE_INTERVAL_SECONDS = 1.0


class BindingOutcomes:
    """The reservations whose Binding may or may not have taken effect.

    Args:
        api: an open client.
        ledger: who holds what.
        feed: takes over what a GET shows.
        is_under_way: whether a pod is being bound.
        release: releases the reservation of a pod.
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
        # When the last Binding was sent, on the clock of `time.monotonic`, by the pod's UID.
        self._unsettled: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._unsettled)

    def __contains__(self, uid: object) -> bool:
        return uid in self._unsettled

    def note_sent(self, uid: str) -> None:
        """Note that a Binding was sent now, and that its outcome is unknown."""
        self._unsettled[uid] = time.monotonic()

    def forget(self, uid: str) -> None:
        """Forget a pod whose Binding is known to have failed."""
        self._unsettled.pop(uid, None)

    async def run(self) -> None:
        """Until cancelled: ask the API server what became of reservations whose outcome is unknown."""
        while True:
            await asyncio.sleep(_SETTLE_INTERVAL_SECONDS)
            for uid in list(self._unsettled):
                held = self._ledger.find_holding(uid)
                if held is None or held.stage is Stage.CONFIRMED:
                    self._unsettled.pop(uid, None)
                elif not self._is_under_way(uid):
                    await self.ask(held)

    def recheck(self, held: Holding) -> None:
        """Have a holding checked against the API server, because a list did not show it."""
        self._unsettled.setdefault(held.pod.uid, time.monotonic())

    def take_read(self, ref: PodRef, pod: Pod) -> None:
        """Take over a pod that was read by itself."""
        if not pod.spec.node_name:
            # It may have been deleted while its answer was on the way.
            if ref.uid in self._feed.pending:
                self._feed.take_pod(pod)
            return
        # The pod may have been deleted while its answer was on the way: unsettled until the watch shows it.
        self._feed.take_pod(pod)
        self._unsettled.pop(ref.uid, None)
        held = self._ledger.find_holding(ref.uid)
        if held is not None and held.stage is Stage.BOUND:
            self._unsettled[ref.uid] = time.monotonic()

    async def ask(self, held: Holding, *, binding: bool = False) -> None:
        """Ask what became of a holding; `binding` says that the bind under way is the one that asks."""
        ref, pod = held.pod, None
        try:
            pod = await read_pod(self._api, ref)
        except PodGoneError:
            pass
        except ApiError as exc:
            log.info("cannot ask for pod %s: %s", ref, exc)
            return
        if self._ledger.find_holding(ref.uid) is not held or (not binding and self._is_under_way(ref.uid)):
            # While the answer was on its way things went on, and it may be older than they are.
            return
        if pod is not None and pod.spec.node_name:
            self.take_read(ref, pod)
            return
        sent = self._unsettled.setdefault(ref.uid, time.monotonic())
        if pod is None or time.monotonic() - sent > _SETTLE_SECONDS:
            log_release(held)
            self._release(ref)
            self._unsettled.pop(ref.uid, None)
