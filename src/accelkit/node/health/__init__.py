"""The health of cards, derived with hysteresis from the host's files and the driver."""

from accelkit.node.health.monitor import HealthChecks, HealthMonitor

__all__ = ["HealthChecks", "HealthMonitor"]
