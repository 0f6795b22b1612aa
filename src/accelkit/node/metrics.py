"""Metrics for the node agent, in a separate registry."""

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
    """The metrics that the node agent exports."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.corrections = Counter(
            "accelkit_assignment_corrections",
            "Assignments that were corrected to the devices that the kubelet allocated.",
            registry=self.registry,
        )
        self.rejected = Counter(
            "accelkit_disbelieved_assignments",
            "Assignments that were corrected because they were partly invalid.",
            registry=self.registry,
        )
        self.recorded = Counter(
            "accelkit_assignments_recorded",
            "Pods without an assignment for which one was created from the devices that the kubelet allocated.",
            registry=self.registry,
        )
        self.failures = Counter(
            "accelkit_assignment_correction_failures",
            "Corrections that the API server rejected or to which it did not respond.",
            ["reason"],
            registry=self.registry,
        )
        self.divergent = Gauge(
            "accelkit_divergent_pods",
            "Pods whose assignment differs from the devices that the kubelet allocated, after all corrections.",
            registry=self.registry,
        )
        self.checkpoint_readable = Gauge(
            "accelkit_kubelet_checkpoint_readable",
            "1 if the kubelet's checkpoint, the only source of the devices of init containers, was read, else 0.",
            registry=self.registry,
        )
        self.allocations = Counter(
            "accelkit_allocations", "Responses to Allocate calls.", ["resource", "result"], registry=self.registry
        )

        self.over_use = Gauge(
            "accelkit_over_use_bytes",
            "Memory of a card that a pod uses beyond its share.",
            ["namespace", "pod", "card"],
            registry=self.registry,
        )

        self.libraries = Gauge(
            "accelkit_vendor_library",
            "1 for each library of a vendor with cards on this node, with its state.",
            ["vendor", "library", "state", "path", "version"],
            registry=self.registry,
        )

        self.xids = Counter(
            "accelkit_xids",
            "Errors of cards that NVIDIA's driver reported, with the required action.",
            ["card", "xid", "action"],
            registry=self.registry,
        )
        # The last XID of each card is exported by the collector of card metrics.
        self.last_xids: dict[str, int] = {}

    def build_allocation_counter(self, resource: str) -> Callable[[str], None]:
        """Return a function that counts the allocations of a resource by result."""
        return lambda result: self.allocations.labels(resource, result).inc()

    def serve(self, port: int, stop: asyncio.Event) -> None:
        """Serve `/metrics` on all addresses until `stop` is set. If the port is 0, do not serve.

        Raises:
            ConfigurationError: the port is already in use.
        """
        if not port:
            return
        try:
            server = HeadServer(Listen("0.0.0.0", port), self._answer, connections=_CONNECTIONS)  # noqa: S104 - scraped
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"cannot serve metrics on port {port}: {exc.__cause__}",
                next_step="set another port with --metrics-port, or 0 to disable it",
            ) from exc
        self._serving = asyncio.create_task(server.run(stop))

    async def _answer(self, method: str, path: str, _: Headers) -> Reply:
        if (method, path) != ("GET", "/metrics"):
            return Reply(404, b'{"error":"only GET /metrics is supported"}')
        return Reply(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
