"""The health of cards, from signals of the host's files and of the driver, with hysteresis."""

from accelkit.node.health.monitor import HealthChecks, HealthMonitor

__all__ = ["HealthChecks", "HealthMonitor"]
