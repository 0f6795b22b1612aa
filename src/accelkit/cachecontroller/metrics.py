"""Metrics of the cache controller, in a registry of its own."""

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
_SHOWN: Final = (ConditionType.VERIFIED, ConditionType.READY, ConditionType.DEGRADED, ConditionType.EFFECTIVE)


class _CacheCollector(Collector):
    """Counts, when scraped, caches by condition; a series for each cache would be the users' to multiply."""

    def __init__(self, caches: Callable[[], Iterable[Cache]]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        found: Tally[tuple[str, str]] = Tally()
        nodes = 0
        for cache in self._caches():
            nodes += cache.status.counts.node_error_cnt
            for type_ in _SHOWN:
                condition = find_condition(cache.status.conditions, type_)
                found[type_.value, condition.status if condition is not None else "Unknown"] += 1
        shown = GaugeMetricFamily(
            "accelkit_kernel_caches", "Caches, by the status of a condition.", labels=["condition", "status"]
        )
        for (type_name, status), number in sorted(found.items()):
            shown.add_metric([type_name, status], number)
        yield shown
        yield GaugeMetricFamily(
            "accelkit_kernel_cache_node_failures", "Nodes on which a cache failed, summed over caches.", value=nodes
        )


class _AnswerCollector(Collector):
    """Shows, when scraped, what the webhook answered."""

    def __init__(self, answers: Callable[[], Mapping[str, int]]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Metric]:
        counted = CounterMetricFamily(
            "accelkit_kernel_cache_webhook_pods",
            "Pods that the webhook was asked about: changed, unchanged, refused, or unready.",
            labels=["result"],
        )
        for result, count in sorted(self._answers().items()):
            counted.add_metric([result], count)
        yield counted


class ControllerMetrics:
    """What the controller counts.

    Args:
        leads: whether this replica writes.
        caches: all that there are.
        waiting: how many caches wait to be looked at, and how many images to be judged, those due later included.
        unreadable: how many objects could not be read.
        silent_seconds: how long the API server has been away.
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
            "Images that were judged: verified, refused, or retried where nothing could be learnt.",
            ["result"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "accelkit_kernel_cache_judgement_duration_seconds",
            "Time to resolve an image and verify it.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.writes = Counter(
            "accelkit_kernel_cache_writes",
            "Objects created, patched and deleted, and statuses written, by what the API server said.",
            ["verb", "result"],
            registry=self.registry,
        )
        self.failures = Counter(
            "accelkit_kernel_cache_pass_failures", "Looks at a cache that ended early.", registry=self.registry
        )
        for name, text, read in (
            ("accelkit_leader", "1 where this replica writes.", leads),
            ("accelkit_kernel_cache_queue", "Caches that wait to be looked at, and images to be judged.", waiting),
            ("accelkit_unreadable_objects", "Objects that cannot be read and are left out.", unreadable),
            ("accelkit_api_silence_seconds", "How long the API server has been away.", silent_seconds),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)
        self.registry.register(_CacheCollector(caches))

    def observe_judgement(self, result: str, seconds: float) -> None:
        """Count an image that was judged: `verified`, `refused` or `retried`."""
        self._judgements.labels(result).inc()
        self._duration.observe(seconds)

    def show_webhook(self, answers: Callable[[], Mapping[str, int]]) -> None:
        """Show from now on how many pods the webhook was asked about, by what became of them."""
        self.registry.register(_AnswerCollector(answers))

    def render(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)
