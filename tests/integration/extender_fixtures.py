"""Fixtures of tests of the extender as a process: its cluster, and a way to the API server that can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from extender_process import Client, Process, World, client_of, world_of
from proxy import Proxy


@pytest.fixture(scope="module")
def process(control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """An extender for all tests of a file."""
    with Process(tmp_path_factory.mktemp("logs"), "--kubeconfig", str(control_plane.kubeconfig)) as process:
        yield process


@pytest.fixture
async def world(control_plane: Any) -> AsyncIterator[World]:
    """Nodes and pods of a test, deleted at its end."""
    async with world_of(control_plane.kubeconfig) as world:
        yield world


@pytest.fixture
async def proxy(control_plane: Any, tmp_path: Path) -> AsyncIterator[Proxy]:
    """What lies between an extender and the API server."""
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        yield proxy


@pytest.fixture
async def extender(proxy: Proxy, tmp_path: Path) -> AsyncIterator[Client]:
    """An extender behind the proxy."""
    with Process(tmp_path, "--kubeconfig", str(proxy.kubeconfig)) as process:
        async with client_of(process) as client:
            yield client
        assert "Traceback" not in process.log.read_text()
