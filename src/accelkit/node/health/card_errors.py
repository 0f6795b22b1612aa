"""Events and metrics for card errors, and the annotation that administrators set to declare a card repaired."""

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

# The minimum time between two Events for the same XID of a card, because a program may repeatedly cause an XID.
_EVENT_SECONDS: Final = 600.0


class CardErrors:
    """Reporter that publishes a node's card errors as Events and metrics.

    Args:
        node: this node.
        monitor: the monitor of the cards' health.
        events: the event recorder.
        metrics: the metrics of the agent.
        clock: a monotonic clock in seconds.
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
        self._recorded_at: dict[tuple[str, int], float] = {}

    async def report_xids(self) -> None:
        """Report the XIDs since the previous call as metrics, and also as Events if they require an action."""
        for card, xid in self._monitor.take_xids():
            action = find_xid(xid).action
            self._metrics.xids.labels(card, str(xid), action.value).inc()
            self._metrics.last_xids[card] = xid
            last = self._recorded_at.get((card, xid))
            if action is XidAction.IGNORE or (last is not None and self._clock() - last < _EVENT_SECONDS):
                continue
            self._recorded_at[card, xid] = self._clock()
            await self._record("CardError", f"card {card}: {explain_xid(xid)}", warning=True)

    async def clear_repaired_faults(self, cards: Sequence[FoundCard]) -> None:
        """Clear the faults of cards that are declared repaired in the node's annotation, and remove the annotation."""
        names = self._node.declared_repaired
        if not names or not await self._node.clear_declaration():
            return
        repaired = [each.card.id for place, each in enumerate(cards) if is_named(each.card, place, names)]
        for card in repaired:
            if self._monitor.clear_fault(card):
                await self._record("CardMended", f"card {card} was declared repaired")
        if not repaired:
            log.warning(
                "cannot clear the fault of %s: it is not a card of this node. Specify the ID or number of a "
                "card on this node.",
                ", ".join(sorted(names)),
            )

    async def _record(self, reason: str, message: str, *, warning: bool = False) -> None:
        await self._events.record(ObjectReference("Node", self._node.name), reason, message, warning=warning)
