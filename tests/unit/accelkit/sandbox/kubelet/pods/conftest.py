import pytest
from simulated_pods import manager_of, node_of

from accelkit.back_off import BackOff
from accelkit.sandbox.kubelet.pods import containers, pod_status, pod_worker, pods


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(containers, "_BACK_OFF", BackOff(0.01, 0.02))
    monkeypatch.setattr(containers, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_worker, "_CREDENTIALS_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_status, "_BACK_OFF", BackOff(0.01, 0.02))
    monkeypatch.setattr(pods, "_DELETE_RETRY_SECONDS", 0.01)


@pytest.fixture
def cards():
    """How many cards the node has."""
    return 1


@pytest.fixture
async def node(tmp_path, cards):
    """A node that runs, on which containers of our image run `PROGRAM`."""
    async with node_of(tmp_path, manager=manager_of(cards)).running() as node:
        yield node
