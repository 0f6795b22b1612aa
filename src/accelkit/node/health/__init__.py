"""Whether a card can be trusted with new shares: what the host's files and the driver say, steadied over time."""

from accelkit.node.health.monitor import HealthMonitor

__all__ = ["HealthMonitor"]
