"""Controller that repeatedly processes all nodes that have failed cards or a record, one node at a time.

Decisions depend only on the current state of the cluster, the records of the nodes, and the breaker. Therefore, a pass
can be interrupted at any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from accelkit.errors import ApiError, ConfigurationError, NotLeadingError
from accelkit.remediation.deciding.actions import Action, Decision, NodeEvent
from accelkit.remediation.deciding.breaker import Breaker
from accelkit.remediation.deciding.decision import Permits, decide
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.deciding.views import HoldReason, RemediationNode
from accelkit.remediation.metrics import RemediationMetrics
from accelkit.remediation.nodes import NodeSummary
from accelkit.remediation.repair_times import RepairTimes

log = logging.getLogger(__name__)

# If the API server has not responded for longer than this time, the data is too old to make decisions.
_SILENCE_SECONDS: Final = 10.0
# If the response to the first write of a remediation is lost, the node is considered to be under remediation for this
# time, even without a record.
_UNCERTAIN_SECONDS: Final = 60.0


class Reading(Protocol):
    """Reader of individual nodes."""

    async def read(self, name: str) -> RemediationNode | None:
        """Return the current state of a node; None if the node does not exist."""


class Writing(Protocol):
    """Executor of actions."""

    async def carry_out(self, view: RemediationNode, actions: tuple[Action, ...]) -> None:
        """Carry out the actions in order."""


class Store(Protocol):
    """Storage for an open breaker."""

    async def read(self) -> str | None:
        """Return the reason why the breaker is open; None if it is closed."""

    async def write(self, reason: str) -> None:
        """Record that the breaker is open, with the reason."""


class Controller:
    """Remediation controller for the whole cluster.

    Args:
        nodes: a function that returns the summaries of all nodes.
        reader: the reader of individual nodes from the API server.
        writer: the executor of actions.
        store: the storage for an open breaker.
        settings: the administrator's settings.
        metrics: the metrics of the service.
        ready: a function that returns whether this replica is the leader and has read all nodes since it became the
            leader.
        silent_seconds: a function that returns the time since the last response from the API server.
        clock: a monotonic clock in seconds.
        wall: a wall clock in Unix seconds, which is used for records.
    """

    def __init__(
        self,
        nodes: Callable[[], list[NodeSummary]],
        reader: Reading,
        writer: Writing,
        store: Store,
        *,
        settings: RemediationSettings,
        metrics: RemediationMetrics,
        ready: Callable[[], bool],
        silent_seconds: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._nodes, self._reader, self._writer, self._store = nodes, reader, writer, store
        self._settings, self._metrics, self._ready = settings, metrics, ready
        self._silent_seconds, self._clock, self._wall = silent_seconds, clock, wall
        self.breaker = Breaker(settings.trip_share, settings.trip_seconds)
        self._stored = False
        self._begun: dict[str, float] = {}
        self._planned: dict[str, frozenset[tuple[str, str]]] = {}
        self._times = RepairTimes()

    async def run(self, pause_seconds: float) -> None:
        """Process all nodes repeatedly until cancelled."""
        while True:
            if self._settings.mode is not Mode.OFF and self._ready():
                try:
                    await self.run_pass()
                except (ApiError, ConfigurationError, NotLeadingError) as exc:
                    log.warning("remediation pass ended early error=%s", exc)
            await asyncio.sleep(pause_seconds)

    async def run_pass(self) -> None:
        """Process all nodes once.

        Raises:
            ApiError: the API server did not respond. The remaining nodes are processed in the next pass.
            NotLeadingError: another replica is the leader.
        """
        if self._silent_seconds() > _SILENCE_SECONDS:
            log.warning("skipped remediation pass reason='the API server does not respond'")
            return
        nodes = self._nodes()
        with_cards = sum(each.has_cards for each in nodes)
        await self._follow_breaker({each.name for each in nodes if each.fresh}, with_cards)
        self._discard_absent(nodes)
        under = {each.name for each in nodes if each.active} | self._begun.keys() | self._planned.keys()
        allowed, held = self._settings.count_allowed(with_cards), Counter[str]()
        for node in sorted((each for each in nodes if each.recorded or each.fresh), key=lambda each: not each.recorded):
            act = not self.breaker.open
            begin = act and (node.name in under or len(under) < allowed)
            reason = await self._process_node(node, Permits(begin, act), under)
            held[reason] += bool(reason)
        self._metrics.set_held({reason: number for reason, number in held.items() if reason})

    async def _follow_breaker(self, fresh: set[str], with_cards: int) -> None:
        stored = await self._store.read()
        if stored is not None:
            self._stored = True
            self.breaker.hold(stored)
        elif self._stored:
            self._stored = False
            self.breaker.close()
            log.warning("closed breaker reason='its ConfigMap was deleted'")
        if self.breaker.observe(fresh, with_cards, self._clock()):
            log.error(
                "opened breaker; remediation stops until an administrator closes it reason=%r", self.breaker.reason
            )
            self._metrics.count("breaker", "done")
        if self.breaker.open and not self._stored and self._settings.mode is Mode.ON:
            await self._store.write(self.breaker.reason)
            self._stored = True

    def _discard_absent(self, nodes: list[NodeSummary]) -> None:
        now, known = self._clock(), {each.name: each for each in nodes}
        self._times.keep({each.name for each in nodes if each.recorded or each.fresh})
        self._begun = {name: at for name, at in self._begun.items() if now - at < _UNCERTAIN_SECONDS}
        self._planned = {
            name: faults for name, faults in self._planned.items() if name in known and known[name].fresh & faults
        }

    async def _process_node(self, node: NodeSummary, permits: Permits, under: set[str]) -> HoldReason:
        """Carry out the next step for a node; return the reason if no action is taken."""
        dry = self._settings.mode is Mode.DRY_RUN
        if dry and (node.recorded or node.fresh == self._planned.get(node.name)):
            return ""
        try:
            view = await self._reader.read(node.name)
            if view is None:
                return ""
            decision = decide(view, self._settings, self._wall(), permits)
            if dry:
                await self._plan(view, node, decision)
            else:
                await self._carry_out(view, decision)
        except (ApiError, ConfigurationError) as exc:
            # A kubelet can fill its Node object up to the size limit. The API server then rejects writes with an error.
            if isinstance(exc, ApiError) and exc.unavailable:
                raise
            log.warning("remediation failed in this pass node=%s error=%s", node.name, exc)
            return "Refused"
        finally:
            under |= self._begun.keys() | self._planned.keys()
        return decision.hold

    async def _carry_out(self, view: RemediationNode, decision: Decision) -> None:
        under = set() if view.record is None else set(view.record.cards)
        self._times.observe(view.name, under | set(decision.begun), self._clock())
        if decision.begun:
            # Record the start before the write, because the result of the write may remain unknown.
            self._begun[view.name] = self._clock()
        await self._writer.carry_out(view, decision.actions)
        for step, cards in (("isolate", decision.begun), ("lift", decision.lifted), ("dismiss", decision.dismissed)):
            for card in cards:
                self._metrics.count(step, "done")
                log.info("remediation step=%s card=%s node=%s", step, card, view.name)
        for card, seconds in decision.lifted.items():
            if self._times.is_plausible(view.name, card, seconds, self._clock()):
                self._metrics.observe_repair(seconds)
            else:
                log.warning("ignored implausible repair duration in record node=%s card=%s", view.name, card)

    async def _plan(self, view: RemediationNode, node: NodeSummary, decision: Decision) -> None:
        """Report the planned actions once for each set of faults on a node. Do not write to the node."""
        if not decision.begun:
            return
        holders = {each.pod for card in decision.begun for each in view.holders.get(card, ())}
        for card in decision.begun:
            self._metrics.count("isolate", "planned")
            log.info("planned isolation (dry-run) card=%s node=%s", card, view.name)
        for _ in holders:
            self._metrics.count("evict", "planned")
        pods = f" and evict {', '.join(sorted(map(str, holders)))}" if holders else ""
        text = f"dry-run: accelkit would isolate {', '.join(decision.begun)}{pods}; nothing was changed"
        self._planned[view.name] = node.fresh
        await self._writer.carry_out(view, (NodeEvent("RemediationPlanned", text),))
