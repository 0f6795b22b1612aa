from __future__ import annotations

import pytest
from work_cluster import WorkCluster

from accelkit.enablement.work import pod_life, run, sides
from accelkit.enablement.work.pods import CheckPods


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(run, "AGREE_SECONDS", 0.05)
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(sides, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(pod_life, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(pod_life, "POLL_SECONDS", 0.0)
    return WorkCluster()


@pytest.fixture
def check_pods():
    return CheckPods("accelkit", "image:1", ("pull",), seconds=0.3)
