"""Metrics of the node agent, in a registry of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from accelkit.errors import ConfigurationError
from accelkit.serving.server import Headers, HeadServer, Reply
from accelkit.serving.tls import Listen

_CONNECTIONS: Final = 16


class Metrics:
    """What the node agent counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.corrections = Counter(
            "accelkit_assignment_corrections",
            "Assignments that were changed to what the kubelet had given.",
            registry=self.registry,
        )
        self.disbelieved = Counter(
            "accelkit_disbelieved_assignments",
            "Assignments that were corrected because something in them could not be believed.",
            registry=self.registry,
        )
        self.recorded = Counter(
            "accelkit_assignments_recorded",
            "Pods without an assignment that got one from what the kubelet had given.",
            registry=self.registry,
        )
        self.failures = Counter(
            "accelkit_assignment_correction_failures",
            "Corrections that the API server refused or did not answer.",
            ["reason"],
            registry=self.registry,
        )
        self.divergent = Gauge(
            "accelkit_divergent_pods",
            "Pods whose assignment was not what the kubelet gave, after all that could be corrected was.",
            registry=self.registry,
        )
        self.checkpoint_readable = Gauge(
            "accelkit_kubelet_checkpoint_readable",
            "1 where the kubelet's checkpoint, which alone tells of init containers' devices, could be read.",
            registry=self.registry,
        )
        self.allocations = Counter(
            "accelkit_allocations", "Answers to the kubelet's Allocate.", ["resource", "result"], registry=self.registry
        )

        self.over_use = Gauge(
            "accelkit_over_use_bytes",
            "Memory of a card that a pod holds beyond its share.",
            ["namespace", "pod", "card"],
            registry=self.registry,
        )

        self.libraries = Gauge(
            "accelkit_vendor_library",
            "1 for each library of a vendor that has cards here, and what became of it.",
            ["vendor", "library", "state", "path", "version"],
            registry=self.registry,
        )

        self.xids = Counter(
            "accelkit_xids",
            "Errors of cards that NVIDIA's driver reported, with what they ask for.",
            ["card", "xid", "action"],
            registry=self.registry,
        )
        # Shown with what else is known of the card.
        self.last_xids: dict[str, int] = {}

    def build_allocation_counter(self, resource: str) -> Callable[[str], None]:
        """Return what counts the results of a resource's allocations."""
        return lambda result: self.allocations.labels(resource, result).inc()

    def serve(self, port: int, stop: asyncio.Event) -> None:
        """Serve `/metrics` on all addresses until `stop` is set; port 0 serves nothing.

        Raises:
            ConfigurationError: the port is taken.
        """
        if not port:
            return
        try:
            server = HeadServer(Listen("0.0.0.0", port), self._answer, connections=_CONNECTIONS)  # noqa: S104 - scraped
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"metrics cannot be served on port {port}: {exc.__cause__}",
                next_step="choose another port with --metrics-port, or 0 for none",
            ) from exc
        self._serving = asyncio.create_task(server.run(stop))

    async def _answer(self, method: str, path: str, _: Headers) -> Reply:
        if (method, path) != ("GET", "/metrics"):
            return Reply(404, b'{"error":"there is only GET /metrics here"}')
        return Reply(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
