"""The kubelet's side of device plugins, against a plugin on real sockets."""

# ruff: noqa: ARG002, N802
# The interface gives the methods of a plugin their names and arguments.

import asyncio
import contextlib
import random
import shutil
import tempfile
import time
from pathlib import Path

import grpc
import pytest

from accelkit.errors import DevicePluginError, SandboxError
from accelkit.node._proto import deviceplugin_pb2 as pb
from accelkit.node._proto.deviceplugin_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_plugins import PluginServer
from accelkit.sandbox.kubelet.devices.device_values import ContainerKind, DeviceRequest, PluginMount

MEMORY = "accelkit.io/memory"
LIMIT = 4_194_304
DEADLINE = 60


class Plugin(DevicePluginServicer):
    """A plugin whose lists and answers the test sets."""

    def __init__(self, folder, name="plugin.sock", *, devices=4, preferred=(), pre_start=False, fail=False):
        self.folder = folder
        self.name = name
        self.lists = asyncio.Queue()
        self.lists.put_nowait([pb.Device(ID=f"card-{number}", health="Healthy") for number in range(devices)])
        self.options = pb.DevicePluginOptions(
            pre_start_required=pre_start, get_preferred_allocation_available=bool(preferred)
        )
        self.answer = list(preferred)
        self.fail = fail
        self.asked = []
        self.started = []

    async def GetDevicePluginOptions(self, request, context):
        return self.options

    async def ListAndWatch(self, request, context):
        while (devices := await self.lists.get()) is not None:
            yield pb.ListAndWatchResponse(devices=devices)

    async def GetPreferredAllocation(self, request, context):
        self.asked.extend(request.container_requests)
        response = pb.ContainerPreferredAllocationResponse(deviceIDs=self.answer)
        return pb.PreferredAllocationResponse(container_responses=[response])

    async def Allocate(self, request, context):
        if self.fail:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "card is full")
        ids = request.container_requests[0].devices_ids
        response = pb.ContainerAllocateResponse(
            envs={"IDS": ",".join(ids)},
            devices=[pb.DeviceSpec(container_path="/dev/x", host_path="/dev/sim0", permissions="rw")],
            mounts=[pb.Mount(container_path="/c", host_path="/h", read_only=True)],
            cdi_devices=[pb.CDIDevice(name="a.io/card=0")],
        )
        return pb.AllocateResponse(container_responses=[response])

    async def PreStartContainer(self, request, context):
        self.started.append(list(request.devices_ids))
        return pb.PreStartContainerResponse()

    @contextlib.asynccontextmanager
    async def serving(self):
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self.folder / self.name}")
        await server.start()
        try:
            yield self
        finally:
            self.lists.put_nowait(None)
            await server.stop(0)


class Kubelet:
    """A plugin server with its manager, and a way to wait for what it learns."""

    def __init__(self, folder):
        self.folder = folder
        self.manager = DeviceManager(clock=time.monotonic, grace_seconds=300.0, chance=random.Random(1))  # noqa: S311 - repeatable
        self.changed = asyncio.Condition()
        self.server = PluginServer(folder, self.manager, on_change=self.notify)
        self.tasks = set()

    def notify(self):
        async def tell():
            async with self.changed:
                self.changed.notify_all()

        task = asyncio.create_task(tell())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def until(self, capacity, allocatable):
        def reached():
            now = self.manager.collect_resources()
            return (now.capacity.get(MEMORY), now.allocatable.get(MEMORY)) == (capacity, allocatable)

        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(reached)

    async def register(self, endpoint="plugin.sock", version="v1beta1", resource=MEMORY):
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
            await RegistrationStub(channel).Register(request, timeout=DEADLINE)

    @contextlib.asynccontextmanager
    async def serving(self, devices, name="plugin.sock", **options):
        """Serve a plugin that registers; yields it once its devices count."""
        async with Plugin(self.folder, name, devices=devices, **options).serving() as plugin:
            await self.register(name)
            await self.until(devices, devices)
            yield plugin

    async def allocate(self, number, pod="p"):
        container = DeviceRequest(name="main", kind=ContainerKind.APP, limits={MEMORY: number})
        await self.manager.allocate(pod, container)
        return self.manager.find_allocations(pod, "main")[MEMORY]


@pytest.fixture
def folder():
    # Not tmp_path: the path of a UNIX socket is short.
    path = Path(tempfile.mkdtemp(prefix="ak-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def kubelet(folder):
    kubelet = Kubelet(folder)
    await kubelet.server.start()
    yield kubelet
    await kubelet.server.stop()


async def test_registered_plugin_is_connected_and_its_devices_are_counted(kubelet, folder):
    async with Plugin(folder).serving() as plugin:
        plugin.lists.put_nowait([pb.Device(ID="a", health="Healthy"), pb.Device(ID="b", health="Unhealthy")])
        await kubelet.register()
        await kubelet.until(2, 1)


async def test_allocate_response_is_passed_to_container(kubelet):
    async with kubelet.serving(1):
        response = (await kubelet.allocate(1)).response
    assert response.environment == {"IDS": "card-0"}
    assert response.devices == ("/dev/sim0",)
    assert response.mounts == (PluginMount(container_path="/c", host_path="/h", read_only=True),)
    assert response.cdi_devices == ("a.io/card=0",)


async def test_preferred_devices_are_requested_and_allocated(kubelet):
    async with kubelet.serving(4, preferred=["card-2", "card-3"]) as plugin:
        held = await kubelet.allocate(2)
    assert held.device_ids == {"card-2", "card-3"}
    assert [(list(ask.available_deviceIDs), ask.allocation_size) for ask in plugin.asked] == [
        (["card-0", "card-1", "card-2", "card-3"], 2)
    ]


async def test_pre_start_is_called_when_the_plugin_requires_it(kubelet):
    async with kubelet.serving(1, pre_start=True) as plugin:
        await kubelet.allocate(1)
        await kubelet.manager.pre_start("p", "main")
    assert plugin.started == [["card-0"]]


async def test_refused_allocate_reports_grpc_status(kubelet):
    async with kubelet.serving(4, fail=True):
        with pytest.raises(DevicePluginError, match="rpc error: code = FailedPrecondition desc = card is full"):
            await kubelet.allocate(1)


@pytest.mark.parametrize(
    ("version", "resource", "says"),
    [("v1beta2", MEMORY, "requested API version"), ("v1beta1", "memory", "is invalid")],
)
async def test_invalid_registration_is_refused(kubelet, version, resource, says):
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await kubelet.register(version=version, resource=resource)
    assert failure.value.code() is grpc.StatusCode.UNKNOWN
    assert says in failure.value.details()


async def test_registration_with_unreachable_endpoint_is_refused(kubelet, monkeypatch):
    monkeypatch.setattr("accelkit.sandbox.kubelet.devices.plugin_connection._CONNECT_SECONDS", 0.1)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await kubelet.register(endpoint="nobody.sock")
    assert "failed to dial device plugin" in failure.value.details()
    assert kubelet.manager.collect_resources().capacity == {}


def message(size):
    """A list of devices whose message has exactly `size` bytes."""
    devices = [pb.Device(ID=f"{number:063}", health="Healthy") for number in range((size - 1_000_000) // 80)]
    # One absurd name fills up: between 16 KiB and 2 MiB each of its bytes is one byte of the message.
    devices[0].ID = "0" * 100_000
    devices[0].ID += "0" * (size - pb.ListAndWatchResponse(devices=devices).ByteSize())
    assert pb.ListAndWatchResponse(devices=devices).ByteSize() == size
    return devices


async def test_device_list_of_4194304_bytes_is_accepted(kubelet, folder):
    devices = message(LIMIT)
    async with Plugin(folder).serving() as plugin:
        plugin.lists.put_nowait(devices)
        await kubelet.register()
        await kubelet.until(len(devices), len(devices))


async def test_device_list_over_4194304_bytes_disconnects_plugin(kubelet):
    devices = message(LIMIT + 1)
    async with kubelet.serving(4) as plugin:
        plugin.lists.put_nowait(devices)
        await kubelet.until(4, 0)


async def test_killed_plugin_can_register_again(kubelet):
    async with kubelet.serving(4):
        pass
    await kubelet.until(4, 0)
    async with kubelet.serving(6, "again.sock"):
        pass


async def test_end_of_old_stream_drops_newer_registration_like_real_kubelet(kubelet):
    async with kubelet.serving(4) as old, kubelet.serving(6, "new.sock"):
        old.lists.put_nowait(None)
        await kubelet.until(6, 0)


async def test_server_start_removes_only_stale_sockets(folder):
    async with Plugin(folder).serving():
        (folder / "checkpoint").write_text("kept")
        kubelet = Kubelet(folder)
        await kubelet.server.start()
        assert sorted(path.name for path in folder.iterdir()) == ["checkpoint", "kubelet.sock"]
        await kubelet.server.stop()


async def test_socket_path_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(SandboxError, match="shorter path"):
        await Kubelet(tmp_path / ("x" * 100)).server.start()
