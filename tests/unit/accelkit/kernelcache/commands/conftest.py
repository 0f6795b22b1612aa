from __future__ import annotations

import pytest
from command_bed import Bed


@pytest.fixture
def bed(hostile_registry, tmp_path) -> Bed:
    return Bed(hostile_registry, tmp_path)
