"""Fixtures of tests of kernel caches: the API of caches, a cache agent's node, a cache controller's site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cache_agent_bed import Bed
from cache_agent_stand import admit_agents, open_bed
from cache_controller_process import Caches, CacheSite, cache_site
from cache_definitions import CacheApi, CacheKinds
from registries.hostile import HostileRegistry

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection


@pytest.fixture
async def there(control_plane: Any, defined: CacheKinds) -> AsyncIterator[CacheApi]:
    """The API of caches, as an administrator sees it."""
    async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
        yield CacheApi(api, "default")


@pytest.fixture(scope="module")
def kubeconfig(request: pytest.FixtureRequest, control_plane: Any, defined: CacheKinds) -> Path:
    """Of a ServiceAccount, named after the file, that may do what a cache agent has to, and nothing else."""
    name: str = request.module.__name__
    return admit_agents(control_plane, name.removeprefix("test_").replace("_", "-"))


@pytest.fixture
async def bed(
    control_plane: Any, kubeconfig: Path, hostile_registry: HostileRegistry, tmp_path: Path
) -> AsyncIterator[Bed]:
    """A node for a cache agent, with a registry that misbehaves as it is told to."""
    async with open_bed(control_plane, kubeconfig, tmp_path) as opened:
        opened.registry = hostile_registry
        yield opened


@pytest.fixture(scope="module")
def site(control_plane: Any, defined: CacheKinds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CacheSite]:
    """A cache controller that judges anew every two seconds, and a registry that tells what it was asked."""
    with cache_site(control_plane, tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
async def caches(site: CacheSite, tmp_path: Path) -> AsyncIterator[Caches]:
    """What a test makes, deleted at its end."""
    async with site.make_caches(tmp_path) as made:
        yield made
