"""All metrics that accelkit's services export, read from the collectors themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from accelkit.cacheagent.metrics import Metrics as CacheAgentMetrics
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.extender.metrics import ExtenderMetrics
from accelkit.extender.sharing.metrics import SharingCollector
from accelkit.extender.stages.metrics import FAMILIES
from accelkit.ledger.ledger import Ledger
from accelkit.node.card_metrics.collector import CardCollector
from accelkit.node.card_metrics.holders import Holdings
from accelkit.node.metrics import Metrics as NodeMetrics
from accelkit.remediation.metrics import RemediationMetrics

SOURCES = Path(__file__).resolve().parents[1] / "src" / "accelkit"
_NAME = re.compile(r"(accelkit|accelerator)_[a-z0-9_]*[a-z0-9]")
# Which stage found what on which node; their lines are made by hand.
_STAGE_LABELS = {
    "accelerator_stage_ready": ("node", "stage", "vendor"),
    "accelerator_stage_failure_info": ("node", "stage", "reason"),
    "accelerator_stage_last_success_timestamp_seconds": ("node", "stage"),
}


@dataclass(frozen=True, order=True, slots=True)
class Exported:
    """A metric as Prometheus knows it: a counter's name ends in `_total`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    def row(self, services: str) -> str:
        """Return its row of docs/reference/metrics.md."""
        labels = ", ".join(f"`{label}`" for label in self.labels) or "none"
        return f"| `{self.name}` | {self.kind} | {labels} | {services} | {self.text} |"


def list_rows() -> list[str]:
    """Return the rows of docs/reference/metrics.md."""
    services: dict[Exported, list[str]] = {}
    for service, metric in list_exported():
        services.setdefault(metric, []).append(service)
    return [metric.row(", ".join(services[metric])) for metric in sorted(services)]


def list_exported() -> Iterator[tuple[str, Exported]]:
    """Yield each metric with the service that exports it."""
    node = NodeMetrics()
    cards = CardCollector("n", cards=list, readings=dict, holdings=lambda: Holdings({}, {}), last_xids=node.last_xids)
    node.registry.register(cards)
    extender = ExtenderMetrics(
        ledger := Ledger(unit_bytes=1),
        lambda: 0.0,
        certificates=Path("/nowhere"),
        sharing=SharingCollector(ledger, lambda: True),
    )
    extender.count_evictions()
    extender.count_lost_events()
    controller = ControllerMetrics(
        leads=lambda: True, caches=list, waiting=lambda: 0, unreadable=lambda: 0, silent_seconds=lambda: 0.0
    )
    controller.add_webhook(dict)
    remediation = RemediationMetrics(
        leads=lambda: True,
        nodes=lambda: 0,
        called=lambda: 0,
        breaker=lambda: False,
        unreadable=lambda: 0,
        silent_seconds=lambda: 0.0,
    )
    for service, registry in (
        ("node agent", node.registry),
        ("extender", extender._registry),
        ("cache controller", controller.registry),
        ("cache agent", CacheAgentMetrics().registry),
        ("remediation", remediation.registry),
    ):
        for collector in registry._collector_to_names:
            for metric in collector.collect():
                yield service, _describe(metric, collector)
    for name, text in FAMILIES.items():
        yield "extender", Exported(name, "gauge", _STAGE_LABELS[name], text)


def list_names_in_sources() -> set[str]:
    """Return every text in the sources that is a metric's name, as it is given to the library."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        if "prometheus_client" in text or path.parent.name == "stages":
            texts = (each.value for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Constant))
            found |= {each for each in texts if isinstance(each, str) and _NAME.fullmatch(each)}
    return found


def _describe(metric: Metric, collector: Any) -> Exported:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    # A family that is made at a scrape knows its labels, one that stays is asked of the collector.
    own = collector._labelnames if isinstance(collector, MetricWrapperBase) else getattr(metric, "_labelnames", ())
    return Exported(name, metric.type, tuple(own), metric.documentation)
