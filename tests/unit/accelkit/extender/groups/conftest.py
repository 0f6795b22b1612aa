import pytest

from accelkit.extender.groups import controller
from accelkit.extender.groups.batches import Batches


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(controller, "_TURN_SECONDS", 0.002)
    monkeypatch.setattr(controller, "_IDLE_SECONDS", 0.02)


@pytest.fixture
def judged(monkeypatch):
    """The names of the groups that were judged."""
    found, judge = [], Batches._judge
    monkeypatch.setattr(Batches, "_judge", lambda batches, group: found.append(group.key.name) or judge(batches, group))
    return found
