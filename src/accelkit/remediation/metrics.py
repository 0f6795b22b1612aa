"""Metrics of remediation, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS: Final = (60, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 259200, 604800)


class RemediationMetrics:
    """What the service counts.

    Args:
        leads: whether this replica acts.
        nodes: how many nodes are under remediation.
        called: for how many of their cards a person was called.
        breaker: whether nothing may be done.
        unreadable: how many objects could not be read.
        silent_seconds: how long the API server has been away.
    """

    def __init__(
        self,
        *,
        leads: Callable[[], bool],
        nodes: Callable[[], int],
        called: Callable[[], int],
        breaker: Callable[[], bool],
        unreadable: Callable[[], int],
        silent_seconds: Callable[[], float],
    ) -> None:
        self.registry = CollectorRegistry()
        self._actions = Counter(
            "accelkit_remediation_actions",
            "What was done about failed cards: done, planned (dry-run), refused, gone, or failed.",
            ["action", "result"],
            registry=self.registry,
        )
        self._repairs = Histogram(
            "accelkit_remediation_repair_duration_seconds",
            "From the isolation of a card until all of it was taken back.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._held = Gauge(
            "accelkit_remediation_held_nodes",
            "Nodes with failed cards for which nothing is done now, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for name, text, read in (
            ("accelkit_leader", "1 where this replica acts.", leads),
            ("accelkit_remediation_nodes", "Nodes under remediation.", nodes),
            ("accelkit_remediation_called_cards", "Cards under remediation for which a person was called.", called),
            ("accelkit_remediation_breaker_open", "1 where too many nodes failed together.", breaker),
            ("accelkit_unreadable_objects", "Objects that cannot be read and are left out.", unreadable),
            ("accelkit_api_silence_seconds", "How long the API server has been away.", silent_seconds),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def count(self, action: str, result: str) -> None:
        """Count one action."""
        self._actions.labels(action, result).inc()

    def observe_repair(self, seconds: float) -> None:
        """Count a card for which all was taken back."""
        self._repairs.observe(seconds)

    def show_held(self, reasons: dict[str, int]) -> None:
        """Show for how many nodes nothing is done, by reason."""
        self._held.clear()
        for reason, number in reasons.items():
            self._held.labels(reason).set(number)

    def render(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)
