"""The registries of the tests: the one that is asked, and another one, which some tests need as its mirror."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from registries.hostile import HostileRegistry


@pytest.fixture
def registry(hostile_registry: HostileRegistry) -> HostileRegistry:
    return hostile_registry


@pytest.fixture
def mirror() -> Iterator[HostileRegistry]:
    with HostileRegistry() as registry:
        yield registry
