from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder that caches are extracted to."""
    return tmp_path / "caches"
