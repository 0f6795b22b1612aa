"""The pod resources socket, asked as the node agent asks it."""

import random
import shutil
import tempfile
from pathlib import Path

import grpc
import pytest

from accelkit.node._proto import podresources_pb2 as pb
from accelkit.node._proto.podresources_pb2_grpc import PodResourcesListerStub
from accelkit.sandbox.kubelet.devices.device_manager import DeviceAllocation, DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse, PluginDevice
from accelkit.sandbox.kubelet.devices.pod_resources import PodResourcesServer
from accelkit.sandbox.kubelet.wire import Container, Pod, PodMeta, PodSpec

MEMORY = "accelkit.io/memory"


def pod(name):
    spec = PodSpec(
        init_containers=[Container(name="init"), Container(name="side", restart_policy="Always")],
        containers=[Container(name="main")],
    )
    return Pod(metadata=PodMeta(name=name, namespace="team", uid=f"uid-{name}"), spec=spec)


@pytest.fixture
async def lister():
    manager = DeviceManager(clock=lambda: 0.0, grace_seconds=300.0, chance=random.Random(1))  # noqa: S311 - repeatable
    listed = [
        PluginDevice(id="a", numa=(0,)),
        PluginDevice(id="b", numa=(0, 1)),
        PluginDevice(id="c"),
        PluginDevice(id="d", healthy=False),
    ]
    manager.update_devices(MEMORY, listed)
    for container, ids in {"init": ["a", "c"], "side": ["b"], "main": ["a", "c", "gone"]}.items():
        manager.restore("uid-one", container, MEMORY, DeviceAllocation(frozenset(ids), AllocateResponse()))
    # Not tmp_path: the path of a UNIX socket is short.
    folder = Path(tempfile.mkdtemp(prefix="ak-"))
    server = PodResourcesServer(folder, manager, active_pods=lambda: [pod("one"), pod("two")])
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
        yield PodResourcesListerStub(channel)
    await server.stop()
    shutil.rmtree(folder)


def entries(devices):
    return [(list(each.device_ids), [node.ID for node in each.topology.nodes]) for each in devices]


async def test_list_includes_sidecars_and_entry_per_device_and_numa_node(lister):
    response = await lister.List(pb.ListPodResourcesRequest(), timeout=60)
    assert [(each.namespace, each.name) for each in response.pod_resources] == [("team", "one"), ("team", "two")]
    side, main = response.pod_resources[0].containers
    assert (side.name, main.name) == ("side", "main")
    assert [len(each.devices) for each in response.pod_resources[1].containers] == [0, 0]
    assert entries(side.devices) == [(["b"], [0]), (["b"], [1])]
    assert entries(main.devices) == [(["a"], [0]), (["c"], []), (["gone"], [])]
    assert {each.resource_name for each in main.devices} == {MEMORY}


async def test_allocatable_resources_include_all_healthy_devices(lister):
    response = await lister.GetAllocatableResources(pb.AllocatableResourcesRequest(), timeout=60)
    assert entries(response.devices) == [(["a"], [0]), (["b"], [0]), (["b"], [1]), (["c"], [])]


async def test_get_returns_resources_of_one_pod(lister):
    response = await lister.Get(pb.GetPodResourcesRequest(pod_name="one", pod_namespace="team"), timeout=60)
    assert [each.name for each in response.pod_resources.containers] == ["side", "main"]


async def test_get_fails_for_unknown_pod(lister):
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await lister.Get(pb.GetPodResourcesRequest(pod_name="one", pod_namespace="other"), timeout=60)
    assert failure.value.details() == "pod one in namespace other not found"
