"""The health of cards: signals from the host's files and the driver, steadied over time."""

from accelkit.node.health.monitor import HealthChecks, HealthMonitor

__all__ = ["HealthChecks", "HealthMonitor"]
