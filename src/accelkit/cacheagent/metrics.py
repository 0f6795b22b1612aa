"""Metrics of the cache agent, and its port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from accelkit.errors import ConfigurationError
from accelkit.serving.server import Headers, HeadServer, Reply
from accelkit.serving.tls import Listen

_CONNECTIONS: Final = 16


class Metrics:
    """Metrics of the agent; `caches` counts caches by next step, and sizes are in bytes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.caches = Gauge(
            "accelkit_kernel_caches_on_node",
            "Caches of the cluster by their state on this node.",
            ["state"],
            registry=self.registry,
        )
        self.stored_bytes = Gauge(
            "accelkit_kernel_cache_stored_bytes", "Bytes of all caches on this node.", registry=self.registry
        )
        self.free_bytes = Gauge(
            "accelkit_kernel_cache_free_bytes", "Free bytes of the disk of the caches.", registry=self.registry
        )
        self.extractions = Counter(
            "accelkit_kernel_cache_extractions", "Caches that were extracted.", registry=self.registry
        )
        self.failures = Counter(
            "accelkit_kernel_cache_failures", "Work on caches that failed.", ["reason"], registry=self.registry
        )
        self.collected = Counter(
            "accelkit_kernel_cache_collected",
            "Caches that were deleted because no pod and no cache object needs them.",
            registry=self.registry,
        )
        self.missed_files = Gauge(
            "accelkit_kernel_cache_missed_files",
            "Files that pods of this node created because the cache lacked them.",
            ["namespace", "cache"],
            registry=self.registry,
        )
        self.status_failures = Counter(
            "accelkit_kernel_cache_status_failures", "Reports that could not be written.", registry=self.registry
        )

        self.protection = Gauge(
            "accelkit_kernel_cache_protection",
            "1 for the state of the store: whether its caches are protected against writes, or why they cannot be.",
            ["state"],
            registry=self.registry,
        )
        self.content_changed = Counter(
            "accelkit_kernel_cache_content_changed",
            "Caches whose content had changed since extraction, and that were removed.",
            registry=self.registry,
        )

    def open_port(self, port: int, is_healthy: Callable[[], bool]) -> HeadServer:
        """Return the server of `/metrics` and `/healthz` on all addresses.

        Raises:
            ConfigurationError: the port is in use.
        """

        async def answer(method: str, path: str, _: Headers) -> Reply:
            if (method, path) == ("GET", "/metrics"):
                return Reply(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)
            if (method, path) == ("GET", "/healthz"):
                healthy = is_healthy()
                text = b"ok\n" if healthy else b"the agent has made no plan for minutes\n"
                return Reply(200 if healthy else 503, text, "text/plain; charset=utf-8")
            return Reply(404, b'{"error":"only GET /metrics and GET /healthz exist"}')

        try:
            return HeadServer(Listen("0.0.0.0", port), answer, connections=_CONNECTIONS)  # noqa: S104 - scraped
        except ConfigurationError as exc:
            raise ConfigurationError(
                f"cannot serve metrics on port {port}: {exc.__cause__}",
                next_step="choose another port with --metrics-port, or 0 for none",
            ) from exc
