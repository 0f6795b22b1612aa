"""Pods are listed once for all who ask at the same time, and never before the moment that they name."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from accelkit.cachecontroller.live_reads.pods import LivePods, UnreadablePodError


class Api:
    """Pods of each namespace."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, dict[str, str]]] = []
        self.pods: list[dict[str, Any]] = [build_pod("p")]

    async def get_page(self, path: str, *, query: dict[str, str], max_bytes: int) -> bytes:
        assert max_bytes
        self.queries.append((path, dict(query)))
        await asyncio.sleep(0)
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": self.pods})


def build_pod(
    name: str, volumes: Any = ({"name": "v", "persistentVolumeClaim": {"claimName": "c"}},)
) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {"volumes": volumes}}


class World:
    def __init__(self) -> None:
        self.now, self.api = 100.0, Api()
        self.pods = LivePods(self.api, clock=lambda: self.now)  # type: ignore[arg-type]


@pytest.fixture
def world():
    return World()


async def test_many_caches_of_a_namespace_share_a_list(world):
    found = await asyncio.gather(*(world.pods.read("team", 90.0) for _ in range(20)))
    assert {each[0].name for each in found} == {"p"}
    assert len(world.api.queries) == 1
    path, query = world.api.queries[0]
    assert path == "/api/v1/namespaces/team/pods"
    # No cache of an API server answers.
    assert "resourceVersion" not in query


@pytest.mark.parametrize(("later", "since"), [(0.5, 100.2), (0.0, 100.0), (2.0, 90.0)])
async def test_what_began_before_the_moment_or_long_ago_is_asked_again(world, later, since):
    await world.pods.read("team", 90.0)
    world.now += later
    world.api.pods = []
    assert await world.pods.read("team", since) == []


async def test_namespaces_are_asked_apart_and_not_kept(world):
    await world.pods.read("team", 90.0)
    world.now += 10
    await world.pods.read("other", 90.0)
    assert [path for path, _ in world.api.queries] == ["/api/v1/namespaces/team/pods", "/api/v1/namespaces/other/pods"]
    assert list(world.pods._lists) == ["other"]


async def test_a_pod_that_cannot_be_read_is_named(world):
    world.api.pods.append(build_pod("odd", volumes="none"))
    with pytest.raises(UnreadablePodError, match="odd"):
        await world.pods.read("team", 90.0)
