import pytest
from support.simulated_cluster import SimulatedCluster

from accelkit.extender.simulation import event_loop_share as turns


@pytest.fixture
def cluster(monkeypatch):
    """A cluster whose simulations do not pause longer than they work."""
    monkeypatch.setattr(turns, "_REST_RATIO", 0)
    return SimulatedCluster()
