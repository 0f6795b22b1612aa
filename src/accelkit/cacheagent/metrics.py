"""Prometheus metrics of the cache agent, and the server for metrics and probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from accelkit.errors import ConfigurationError
from accelkit.serving.server import Headers, HeadServer, Reply
from accelkit.serving.tls import Listen

_CONNECTIONS: Final = 16


class Metrics:
    """Metrics of the cache agent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.caches = Gauge(
            "accelkit_kernel_caches_on_node",
            "Caches of the cluster, by state on this node.",
            ["state"],
            registry=self.registry,
        )
        self.stored_bytes = Gauge(
            "accelkit_kernel_cache_stored_bytes", "Total size of all caches on this node.", registry=self.registry
        )
        self.free_bytes = Gauge(
            "accelkit_kernel_cache_free_bytes", "Free space on the disk of the caches.", registry=self.registry
        )
        self.extractions = Counter("accelkit_kernel_cache_extractions", "Extracted caches.", registry=self.registry)
        self.failures = Counter(
            "accelkit_kernel_cache_failures",
            "Failed reads, extractions and verifications of caches.",
            ["reason"],
            registry=self.registry,
        )
        self.collected = Counter(
            "accelkit_kernel_cache_collected",
            "Caches that were deleted because no pod and no cache object used them.",
            registry=self.registry,
        )
        self.missed_files = Gauge(
            "accelkit_kernel_cache_missed_files",
            "Files that pods of this node created because the cache did not contain them.",
            ["namespace", "cache"],
            registry=self.registry,
        )
        self.status_failures = Counter(
            "accelkit_kernel_cache_status_failures", "Failed writes of reports.", registry=self.registry
        )

        self.protection = Gauge(
            "accelkit_kernel_cache_protection",
            "1 for the current state: whether caches are protected against writes, or why they cannot be protected.",
            ["state"],
            registry=self.registry,
        )
        self.content_changed = Counter(
            "accelkit_kernel_cache_content_changed",
            "Caches that were deleted because their content had changed since extraction.",
            registry=self.registry,
        )

    def open_port(self, port: int, is_healthy: Callable[[], bool]) -> HeadServer:
        """Open a server for `/metrics` and `/healthz` on all addresses.

        Raises:
            ConfigurationError: the port is in use.
        """

        async def answer(method: str, path: str, _: Headers) -> Reply:
            if (method, path) == ("GET", "/metrics"):
                return Reply(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
            if (method, path) == ("GET", "/healthz"):
                healthy = is_healthy()
                text = b"ok\n" if healthy else b"the agent has made no plan for several minutes\n"
                return Reply(200 if healthy else 503, text, "text/plain; charset=utf-8")
            return Reply(404, b'{"error":"only GET /metrics and GET /healthz exist"}')

        try:
            return HeadServer(Listen("0.0.0.0", port), answer, connections=_CONNECTIONS)  # noqa: S104 - scraped
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"cannot serve metrics on port {port}: {exc.__cause__}",
                next_step="set --metrics-port to another port, or to 0 to disable it",
            ) from exc
