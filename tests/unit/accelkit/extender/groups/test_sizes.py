import asyncio

import msgspec
import pytest
from fake_api.watches import WatchedApi
from support.tasks import running
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.extender.groups import sizes as module
from accelkit.extender.groups.group_index import GroupIndex, GroupSizeError
from accelkit.extender.groups.sizes import GroupSizes
from accelkit.kube.views.scheduling import SchedulingPod

NATIVE, PLUGIN = "/apis/scheduling.k8s.io", "/apis/scheduling.x-k8s.io"
OBJECTS = f"{NATIVE}/v1beta1/podgroups"


class World:
    def __init__(self):
        self.api, self.group_index, self.changes = WatchedApi(), GroupIndex(), 0
        self.sizes = GroupSizes(self.api, self.group_index, self.note)
        metadata = {"name": "p", "namespace": "d", "uid": "p"}
        pod = {"metadata": metadata, "spec": {"schedulingGroup": {"podGroupName": "g"}}}
        self.group_index.take_event("ADDED", msgspec.convert(pod, SchedulingPod))

    def note(self, *_keys):
        self.changes += 1

    def serve(self):
        """Kubernetes 1.37's versions of its own group, and none of the plug-in's."""
        documents = self.api.documents
        documents[NATIVE] = {"versions": [{"version": "v1"}, {"version": "v1beta1"}]}
        documents[f"{NATIVE}/v1"] = {"resources": [{"name": "priorityclasses"}]}
        documents[f"{NATIVE}/v1beta1"] = {"resources": [{"name": "workloads"}, {"name": "podgroups"}]}

    def store(self, count, name="g"):
        spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
        self.api.store(OBJECTS, {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec})

    def size(self):
        try:
            return self.group_index.read_size(self.group_index.find("p"))
        except GroupSizeError as exc:
            return str(exc)


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(module, "_ABSENT_SECONDS", 0.02)
    monkeypatch.setattr(module, "_FAILED_SECONDS", 0.02)
    return World()


async def test_served_pod_group_kind_is_watched_and_unserved_kind_is_absent(world):
    world.serve()
    world.store(4)
    async with running(world.sizes.run()):
        await until(lambda: world.sizes.are_read)
        assert world.size() == 4
        world.store(5)
        await until(lambda: world.size() == 5)
        del world.api.objects[f"{NATIVE}/v1beta1/namespaces/d/podgroups/g"]
        await until(lambda: "does not exist" in str(world.size()))
    assert world.changes >= 4


async def test_pod_group_kind_served_later_is_detected(world):
    async with running(world.sizes.run()):
        await until(lambda: world.sizes.are_read)
        assert "does not exist" in world.size()
        world.store(2)
        world.serve()
        await until(lambda: world.size() == 2)


async def test_group_sizes_are_unknown_until_api_server_responds(world):
    world.api.fail(ApiError("away"), "GET", PLUGIN, times=None)
    async with running(world.sizes.run()):
        await asyncio.sleep(0.05)
        assert not world.sizes.are_read
        world.api.recover()
        await until(lambda: world.sizes.are_read)
