"""Pods are listed once for all who ask at the same time, and never before the moment that they name."""

from __future__ import annotations

import asyncio

import pytest
from fake_api.server import FakeApi
from support.pods import build_pod

from accelkit.cachecontroller.live_reads.pods import LivePods, UnreadablePodError

PODS = "/api/v1/pods"
VOLUMES = ({"name": "v", "persistentVolumeClaim": {"claimName": "c"}},)


class World:
    def __init__(self) -> None:
        self.now, self.api = 100.0, FakeApi()
        self.api.after.append(lambda _: asyncio.sleep(0))
        self.pods = LivePods(self.api, clock=lambda: self.now)
        self.put("p")

    def put(self, name: str, volumes: object = VOLUMES) -> None:
        self.api.store(PODS, build_pod(name, metadata={"namespace": "team", "uid": name}, volumes=volumes))


@pytest.fixture
def world():
    return World()


async def test_concurrent_reads_of_namespace_share_one_list(world):
    found = await asyncio.gather(*(world.pods.read("team", 90.0) for _ in range(20)))
    assert {each[0].name for each in found} == {"p"}
    assert len(world.api.requests) == 1
    assert world.api.requests[0].path == "/api/v1/namespaces/team/pods"
    # No cache of an API server answers.
    assert "resourceVersion" not in world.api.requests[0].query


@pytest.mark.parametrize(("later", "since"), [(0.5, 100.2), (0.0, 100.0), (2.0, 90.0)])
async def test_outdated_pod_list_is_not_reused(world, later, since):
    await world.pods.read("team", 90.0)
    world.now += later
    world.api.objects.clear()
    assert await world.pods.read("team", since) == []


async def test_each_namespace_has_own_list_and_old_lists_are_dropped(world):
    await world.pods.read("team", 90.0)
    world.now += 10
    await world.pods.read("other", 90.0)
    asked = [each.path for each in world.api.requests]
    assert asked == ["/api/v1/namespaces/team/pods", "/api/v1/namespaces/other/pods"]
    assert list(world.pods._lists) == ["other"]


async def test_error_names_unreadable_pod(world):
    world.put("odd", "none")
    with pytest.raises(UnreadablePodError, match="odd"):
        await world.pods.read("team", 90.0)
