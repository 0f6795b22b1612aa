"""Extender metrics about requests and the ledger, in a separate registry."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accelkit.ledger.ledger import Ledger
from accelkit.model.validity import find_end

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Minimum pause between two renderings, as a multiple of the duration of the first rendering.
_PAUSE_RATIO: Final = 10

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class _LedgerCollector(Collector):
    """Collector of the ledger's values for each node; the node agent exports the series for each card."""

    def __init__(self, ledger: Ledger, silent_seconds: Callable[[], float]) -> None:
        self._ledger = ledger
        self._silent_seconds = silent_seconds

    def collect(self) -> Iterator[Metric]:
        cards = GaugeMetricFamily("accelkit_cards", "Cards in the node's inventory.", labels=["node"])
        capacity = GaugeMetricFamily("accelkit_memory_capacity_bytes", "Capacity of the node's cards.", labels=["node"])
        used = GaugeMetricFamily(
            "accelkit_memory_used_bytes", "Memory that pods hold on the cards of the node.", labels=["node"]
        )
        unassigned = GaugeMetricFamily(
            "accelkit_unassigned_pods", "Bound pods that hold cards without a readable assignment.", labels=["node"]
        )
        for entry in self._ledger.list_nodes():
            if entry.inventory is None and not entry.holdings:
                continue
            cards.add_metric([entry.name], len(entry.list_cards()))
            capacity.add_metric([entry.name], sum(card.capacity_bytes for card in entry.list_cards()))
            used.add_metric([entry.name], sum(use.used_bytes for use in entry.uses.values()))
            unassigned.add_metric([entry.name], len(entry.unassigned))
        yield from (cards, capacity, used, unassigned)
        yield GaugeMetricFamily("accelkit_pods", "Pods that hold cards.", value=len(self._ledger))
        yield GaugeMetricFamily(
            "accelkit_api_silence_seconds",
            "Seconds for which the API server has been unreachable.",
            value=self._silent_seconds(),
        )


class _FeedCollector(Collector):
    """Collector of the number of objects from the API server that could not be applied completely."""

    def __init__(self, invalid_assignments: Callable[[], int], unreadable: Callable[[], int]) -> None:
        self._invalid_assignments, self._unreadable = invalid_assignments, unreadable

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "accelkit_disbelieved_assignments",
            "Pods whose assignment is at least partly invalid.",
            value=self._invalid_assignments(),
        )
        yield CounterMetricFamily(
            "accelkit_unreadable_objects",
            "Unreadable pods, nodes and lists of cards.",
            value=self._unreadable(),
        )


class _RequestCollector(Collector):
    """Collector of the number of requests on the port for the verbs, by HTTP version."""

    def __init__(self, requests: Callable[[], Mapping[str, int]]) -> None:
        self._requests = requests

    def collect(self) -> Iterator[Metric]:
        counted = CounterMetricFamily(
            "accelkit_extender_requests", "Requests from kube-scheduler, by HTTP version.", labels=["protocol"]
        )
        for protocol, count in self._requests().items():
            counted.add_metric([protocol], count)
        yield counted


class _CertificateCollector(Collector):
    """Collector of the expiry times of the certificates in a folder; each file `NAME.crt` is from the Secret NAME."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        ends = GaugeMetricFamily(
            "accelkit_certificate_expiry_timestamp_seconds",
            "Unix time at which the certificate of a Secret expires; no series if it cannot be read.",
            labels=["certificate"],
        )
        for path in sorted(self._folder.glob("*.crt")):
            with contextlib.suppress(OSError, ValueError):
                ends.add_metric([path.stem], find_end(path.read_bytes()).timestamp())
        yield ends


class ExtenderMetrics:
    """Extender metrics.

    Args:
        ledger: the ledger, which is read at each scrape.
        silent_seconds: a function that returns the time since the last response from the API server.
        leads: a function that returns whether this replica may bind.
        certificates: the folder of the certificates `NAME.crt` whose expiry times are reported.
        sharing: the collector of the sharing rules; None without sharing rules.
        invalid_assignments: a function that returns the number of pods whose assignment is at least partly invalid.
        unreadable: a function that returns the number of unreadable objects.
        requests: a function that returns the number of requests on the port for the verbs, by HTTP version.
        stages: a function that returns the stage metrics of the nodes in the exposition format.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        ledger: Ledger,
        silent_seconds: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
        *,
        certificates: Path | None = None,
        sharing: Collector | None = None,
        invalid_assignments: Callable[[], int] = lambda: 0,
        unreadable: Callable[[], int] = lambda: 0,
        requests: Callable[[], Mapping[str, int]] = dict,
        stages: Callable[[], bytes] = bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = CollectorRegistry()
        self._stages = stages
        self._clock = clock
        self._text, self._render_at = b"", -math.inf
        self.duration = Histogram(
            "accelkit_extender_request_duration_seconds",
            "Time from the end of the request to the response.",
            ["verb"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.errors = Counter("accelkit_extender_errors", "Responses with an error.", ["verb"], registry=self._registry)
        self.wakes = Counter(
            "accelkit_extender_wakes",
            "Annotations of nodes that make kube-scheduler retry waiting pods.",
            ["result"],
            registry=self._registry,
        )
        leader = Gauge("accelkit_leader", "1 if this replica may bind.", registry=self._registry)
        leader.set_function(leads)
        self._registry.register(_LedgerCollector(ledger, silent_seconds))
        self._registry.register(_FeedCollector(invalid_assignments, unreadable))
        self._registry.register(_RequestCollector(requests))
        if certificates is not None:
            self._registry.register(_CertificateCollector(certificates))
        if sharing is not None:
            self._registry.register(sharing)

    def count_evictions(self) -> Counter:
        """Create and return the counter of evictions for pods of higher priority, by `result`."""
        return Counter(
            "accelkit_extender_evictions",
            "Evictions by the extender for pods of higher priority.",
            ["result"],
            registry=self._registry,
        )

    def count_lost_events(self) -> Counter:
        """Create and return the counter of pods for which the watch missed an event."""
        return Counter(
            "accelkit_extender_lost_pod_events",
            "Pods for which the watch lost an event, detected by comparison with a list.",
            registry=self._registry,
        )

    def render(self) -> bytes:
        """Return the metrics in the exposition format.

        Any client may request the metrics, and rendering takes a tenth of a second on a large cluster. Therefore, at
        most a tenth of the process's time is spent on rendering, and subsequent requests get the cached text.
        """
        now = self._clock()
        if now >= self._render_at:
            self._text = generate_latest(self._registry) + self._stages()
            self._render_at = now + _PAUSE_RATIO * (self._clock() - now)
        return self._text
