"""Tells people of cards' errors, and listens to what they say of cards that they have mended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from accelkit.kube.events import Events, ObjectReference
from accelkit.model.cordon import is_named
from accelkit.node.discovery import FoundCard
from accelkit.node.health.faults import explain_xid
from accelkit.node.health.monitor import HealthMonitor
from accelkit.node.metrics import Metrics
from accelkit.node.own_node import OwnNode
from accelkit.vendors.xids import XidAction, find_xid

log = logging.getLogger(__name__)

# A program that does it again and again is told of now and then.
_AGAIN_SECONDS: Final = 600.0


class CardErrors:
    """What a node's cards suffer, for people.

    Args:
        node: this node.
        monitor: what watches the cards.
        events: where errors are told.
        metrics: where they are counted.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        node: OwnNode,
        *,
        monitor: HealthMonitor,
        events: Events,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._monitor = monitor
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._told: dict[tuple[str, int], float] = {}

    async def tell(self) -> None:
        """Tell of the XIDs since the last call, of those that ask for nothing in metrics alone."""
        for card, xid in self._monitor.take_xids():
            action = find_xid(xid).action
            self._metrics.xids.labels(card, str(xid), action.value).inc()
            self._metrics.last_xids[card] = xid
            last = self._told.get((card, xid))
            if action is XidAction.IGNORE or (last is not None and self._clock() - last < _AGAIN_SECONDS):
                continue
            self._told[card, xid] = self._clock()
            await self._record("CardError", f"card {card}: {explain_xid(xid)}", warning=True)

    async def follow_mended(self, cards: Sequence[FoundCard]) -> None:
        """Believe the node's annotation which cards are mended, once."""
        words = self._node.mended
        if not words or not await self._node.clear_mended():
            return
        named = [each.card.id for place, each in enumerate(cards) if is_named(each.card, place, words)]
        for card in named:
            if self._monitor.forget_fault(card):
                await self._record("CardMended", f"card {card} was said to be mended")
        if not named:
            log.warning("nothing here is called %s, which was said to be mended", ", ".join(sorted(words)))

    async def _record(self, reason: str, message: str, *, warning: bool = False) -> None:
        await self._events.record(ObjectReference("Node", self._node.name), reason, message, warning=warning)
