"""Prometheus metrics of the cache controller."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accelkit.gkm.conditions import ConditionType, find_condition
from accelkit.gkm.objects import Cache

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REPORTED_CONDITIONS: Final = (
    ConditionType.VERIFIED,
    ConditionType.READY,
    ConditionType.DEGRADED,
    ConditionType.EFFECTIVE,
)


class _CacheCollector(Collector):
    """Collector that counts caches by condition. With one series per cache, users could create any number of series."""

    def __init__(self, caches: Callable[[], Iterable[Cache]]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        found: Tally[tuple[str, str]] = Tally()
        nodes = 0
        for cache in self._caches():
            nodes += cache.status.counts.node_error_cnt
            for type_ in _REPORTED_CONDITIONS:
                condition = find_condition(cache.status.conditions, type_)
                found[type_.value, condition.status if condition is not None else "Unknown"] += 1
        caches = GaugeMetricFamily(
            "accelkit_kernel_caches", "Caches by condition and its status.", labels=["condition", "status"]
        )
        for (type_name, status), number in sorted(found.items()):
            caches.add_metric([type_name, status], number)
        yield caches
        yield GaugeMetricFamily(
            "accelkit_kernel_cache_node_failures", "Nodes on which a cache failed, summed over all caches.", value=nodes
        )


class _AnswerCollector(Collector):
    """Collector that reports the number of webhook responses by result."""

    def __init__(self, answers: Callable[[], Mapping[str, int]]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Metric]:
        counted = CounterMetricFamily(
            "accelkit_kernel_cache_webhook_pods",
            "Pods that the webhook reviewed, by result: changed, unchanged, refused or unready.",
            labels=["result"],
        )
        for result, count in sorted(self._answers().items()):
            counted.add_metric([result], count)
        yield counted


class ControllerMetrics:
    """Metrics of the controller.

    Args:
        leads: function that returns whether this replica is the leader.
        caches: function that returns all caches.
        waiting: function that returns the number of scheduled passes and evaluations.
        unreadable: function that returns the number of objects that could not be read.
        silent_seconds: function that returns for how long the API server has been unreachable.
    """

    def __init__(
        self,
        *,
        leads: Callable[[], bool],
        caches: Callable[[], Iterable[Cache]],
        waiting: Callable[[], int],
        unreadable: Callable[[], int],
        silent_seconds: Callable[[], float],
    ) -> None:
        self.registry = CollectorRegistry()
        self._judgements = Counter(
            "accelkit_kernel_cache_judgements",
            "Judgements of images, by result: verified, refused, or retried if no verdict was possible.",
            ["result"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "accelkit_kernel_cache_judgement_duration_seconds",
            "Time to resolve and verify an image.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.writes = Counter(
            "accelkit_kernel_cache_writes",
            "Write requests to the API server, by verb and result.",
            ["verb", "result"],
            registry=self.registry,
        )
        self.failures = Counter(
            "accelkit_kernel_cache_pass_failures", "Failed passes of caches.", registry=self.registry
        )
        for name, text, read in (
            ("accelkit_leader", "1 if this replica writes.", leads),
            ("accelkit_kernel_cache_queue", "Scheduled passes of caches and scheduled judgements of images.", waiting),
            ("accelkit_unreadable_objects", "Objects that cannot be read and are left out.", unreadable),
            ("accelkit_api_silence_seconds", "Seconds for which the API server has been unreachable.", silent_seconds),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)
        self.registry.register(_CacheCollector(caches))

    def observe_judgement(self, result: str, seconds: float) -> None:
        """Count an evaluation with the result `verified`, `refused` or `retried`, and record its duration."""
        self._judgements.labels(result).inc()
        self._duration.observe(seconds)

    def add_webhook(self, answers: Callable[[], Mapping[str, int]]) -> None:
        """Add the metric that counts the pods that the webhook reviewed.

        Args:
            answers: function that returns the number of pods by result.
        """
        self.registry.register(_AnswerCollector(answers))

    def render(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        return generate_latest(self.registry)
