"""Remediation metrics, in a separate registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS: Final = (60, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 259200, 604800)


class RemediationMetrics:
    """The metrics of the remediation service.

    Args:
        leads: a function that returns whether this replica is the leader.
        nodes: a function that returns the number of nodes under remediation.
        called: a function that returns the number of cards for which an administrator was called.
        breaker: a function that returns whether the breaker is open.
        unreadable: a function that returns the number of unreadable objects.
        silent_seconds: a function that returns the time since the last response from the API server.
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
            "Actions for failed cards, by result: done, planned (dry-run), refused, gone, or failed.",
            ["action", "result"],
            registry=self.registry,
        )
        self._repairs = Histogram(
            "accelkit_remediation_repair_duration_seconds",
            "Seconds from the isolation of a card until the isolation was lifted.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._held = Gauge(
            "accelkit_remediation_held_nodes",
            "Nodes with failed cards on which no action is currently taken, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for name, text, read in (
            ("accelkit_leader", "1 if this replica is the leader.", leads),
            ("accelkit_remediation_nodes", "Nodes under remediation.", nodes),
            (
                "accelkit_remediation_called_cards",
                "Cards under remediation for which an administrator was called.",
                called,
            ),
            ("accelkit_remediation_breaker_open", "1 if the breaker is open: too many nodes failed together.", breaker),
            ("accelkit_unreadable_objects", "Objects that cannot be read and are left out.", unreadable),
            ("accelkit_api_silence_seconds", "Seconds for which the API server has been unreachable.", silent_seconds),
        ):
            Gauge(name, text, registry=self.registry).set_function(read)

    def count(self, action: str, result: str) -> None:
        """Increment the counter for an action and its result."""
        self._actions.labels(action, result).inc()

    def observe_repair(self, seconds: float) -> None:
        """Record the duration of a repair, after the isolation of the card has been lifted."""
        self._repairs.observe(seconds)

    def set_held(self, reasons: dict[str, int]) -> None:
        """Set the number of nodes on which no action is taken, for each reason."""
        self._held.clear()
        for reason, number in reasons.items():
            self._held.labels(reason).set(number)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' exposition format."""
        return generate_latest(self.registry)
