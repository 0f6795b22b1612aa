from __future__ import annotations

from pathlib import Path

import pytest
from registries.hostile import HostileRegistry
from served_images import ImageStand


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder that caches are extracted to."""
    return tmp_path / "caches"


@pytest.fixture
def stand(hostile_registry: HostileRegistry, base: Path) -> ImageStand:
    return ImageStand(hostile_registry, base)
