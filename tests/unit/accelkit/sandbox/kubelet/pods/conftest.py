from __future__ import annotations

import pytest

from accelkit.sandbox.kubelet.pods import containers, pod_status, pod_worker, pods


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(containers, "_BACK_OFF_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(containers, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_worker, "_CREDENTIALS_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(pod_status, "_RETRY_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(pods, "_DELETE_RETRY_SECONDS", 0.01)
