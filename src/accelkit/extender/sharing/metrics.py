"""Metrics for quotas and for the amounts that namespaces use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accelkit.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class SharingCollector(Collector):
    """Collector of the sharing rules, for each namespace that has a quota and uses cards.

    Attributes:
        ledger: the ledger, which contains the rules.
        current: a function that returns whether the active rules match the file.
    """

    ledger: Ledger
    current: Callable[[], bool]

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        yield GaugeMetricFamily(
            "accelkit_sharing_rules_current",
            "1 if the active rules match the file, 0 if the file cannot be read.",
            value=int(self.current()),
        )
        used = GaugeMetricFamily(
            "accelkit_quota_used",
            "Amount of its quota that a namespace holds, in base units.",
            labels=["namespace", "of"],
        )
        limits = GaugeMetricFamily(
            "accelkit_quota_limit", "Quota of a namespace, in base units.", labels=["namespace", "of"]
        )
        namespaces = self.ledger.namespaces
        for namespace, held in sorted(namespaces.list_held().items()):
            if (quota := namespaces.rules.find_quota(namespace)) is None:
                continue
            for of, limit, has in (
                ("memory", quota.memory_bytes, held.memory_bytes),
                ("cards", quota.cards, held.cards),
                ("compute", quota.compute, held.compute),
            ):
                if limit is not None:
                    used.add_metric([namespace, of], has)
                    limits.add_metric([namespace, of], limit)
        yield used
        yield limits
