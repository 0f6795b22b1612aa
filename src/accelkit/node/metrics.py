"""Metrics of the node agent, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from accelkit.errors import ConfigurationError


class Metrics:
    """What the node agent counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.corrections = Counter(
            "accelkit_assignment_corrections",
            "Assignments that were changed to what the kubelet had given.",
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

    def build_allocation_counter(self, resource: str) -> Callable[[str], None]:
        """Return what counts the results of a resource's allocations."""
        return lambda result: self.allocations.labels(resource, result).inc()

    def serve(self, port: int) -> None:
        """Serve `/metrics` on all addresses; 0 serves nothing.

        Raises:
            ConfigurationError: the port is taken.
        """
        if not port:
            return
        try:
            start_http_server(port, registry=self.registry)
        except OSError as exc:
            raise ConfigurationError(
                f"metrics cannot be served on port {port}: {exc.strerror}",
                next_step="choose another port with --metrics-port, or 0 for none",
            ) from exc
