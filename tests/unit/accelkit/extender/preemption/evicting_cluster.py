"""The cluster of those who evict, with its filter and the leader's evictions, on a clock that is set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from preempting_cluster import PreemptingCluster
from prometheus_client import CollectorRegistry, Counter

from accelkit.extender.preemption.evictor import Evictor
from accelkit.extender.preemption.refusals import DELAY_SECONDS, Refusals
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.kube.events import Events
from accelkit.ledger.claims import reserve
from accelkit.model.assignment import Assignment
from accelkit.placement.policies import Policy


class Evicting(PreemptingCluster):
    """The cluster, its filter and who evicts, on a clock that is set."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(*nodes)
        self.now, self.leads, self.nodes = 100.0, True, list(nodes or ("n",))
        self.date = datetime(2026, 1, 1, tzinfo=UTC)
        self.refusals = Refusals(lambda: self.now)
        self.verbs = Verbs(self.ledger, self.feed, Policy.BINPACK, note_refused=self.refusals.note)
        self.counter = Counter("x", "x", ["result"], registry=CollectorRegistry())
        self.evictor = Evictor(
            self.api,
            self.ledger,
            self.feed,
            Policy.BINPACK,
            events=Events(self.api, "accelkit-extender", "h"),
            refusals=self.refusals,
            leads=lambda: self.leads,
            evictions=self.counter,
            clock=lambda: self.now,
            wall_clock=self._read_date,
        )

    def _read_date(self) -> float:
        return self.date.timestamp()

    async def filter(self, item: dict[str, Any]) -> list[str] | None:
        """Which nodes fit a pod."""
        args = msgspec.convert({"Pod": item, "NodeNames": self.nodes}, Args)
        return (await self.verbs.filter(args)).NodeNames

    async def look(self, item: dict[str, Any], seconds: float = DELAY_SECONDS) -> list[str]:
        """Refuse a pod, and look after it so much later."""
        await self.filter(item)
        self.now += seconds
        await self.evictor.run_once()
        return self.evicted

    def reserve(self, name: str, node: str = "n") -> Assignment:
        """Reserve cards for a pod, as bind does."""
        pending = self.feed.pending[f"uid-{name}"]
        assert pending.request is not None
        return reserve(self.ledger, pending.pod.ref, node, pending.request, Policy.BINPACK)
