"""Watch handler for pods, which updates the ledger's feed and logs released shares."""

from __future__ import annotations

import logging

from accelkit.extender.preemption.holds import Holds
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import Holding
from accelkit.ledger.ledger import Ledger
from accelkit.logs import Facts
from accelkit.model.pod import Pod

log = logging.getLogger(__name__)


class PodWatch:
    """Watch handler that applies lists of pods and events about single pods.

    Args:
        ledger: the ledger.
        feed: the feed that updates the ledger.
        holds: the holds of pods; their cards are claimed before the extender handles further requests.
    """

    def __init__(self, ledger: Ledger, feed: LedgerFeed, holds: Holds) -> None:
        self._ledger = ledger
        self._feed = feed
        self._holds = holds

    def take_event(self, kind: str, pod: Pod) -> None:
        """Apply a single pod change."""
        held = self._ledger.find_holding(pod.metadata.uid)
        self._feed.take_pod_event(kind, pod)
        self._holds.note(pod.metadata.uid)
        if held is not None:
            self._log_if_released(held)

    def replace(self, pods: list[Pod], version: str = "") -> list[Holding]:
        """Apply a complete list of pods at this version; return the holdings that are newer."""
        before = [held for entry in self._ledger.list_nodes() for held in entry.holdings.values()]
        young = self._feed.replace_pods(pods, version)
        self._holds.review()
        for held in before:
            self._log_if_released(held)
        return young

    def _log_if_released(self, held: Holding) -> None:
        if self._ledger.find_holding(held.pod.uid) is None:
            log_release(held)


def log_release(held: Holding) -> None:
    """Log the shares that a pod has released."""
    log.info(
        Facts("released", pod=str(held.pod), uid=held.pod.uid, node=held.node, containers=held.assignment.containers)
    )
