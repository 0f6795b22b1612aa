from __future__ import annotations

import pytest

from accelkit.extender.groups import controller


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(controller, "_TURN_SECONDS", 0.002)
    monkeypatch.setattr(controller, "_IDLE_SECONDS", 0.02)
