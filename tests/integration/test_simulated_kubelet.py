"""Simulated nodes under a real API server, scheduler and controller manager."""

# ruff: noqa: ARG002, N802
# The interface gives the methods of a plugin their names and arguments.

import asyncio
import contextlib
import json
import tempfile
import zlib
from pathlib import Path

import grpc
import msgspec
import pytest
import pytest_asyncio

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.node._proto import deviceplugin_pb2 as pb
from accelkit.node._proto.deviceplugin_pb2_grpc import (
    DevicePluginServicer,
    RegistrationStub,
    add_DevicePluginServicer_to_server,
)
from accelkit.sandbox.kubelet import run_node
from accelkit.sandbox.nodes import NodeSpec, SimulatedCard

# One event loop for all, since connections that a cancelled watch leaves behind are closed in the background.
pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

DEADLINE = 60
CARD = "example.com/card"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(control_plane):
    """A sandbox with one node of its own, to which each test adds nodes that run in this process."""
    return control_plane.facts


@pytest.fixture(scope="module")
def folder():
    """Where these nodes have their roots; not tmp_path, since the path of a unix socket is short."""
    with tempfile.TemporaryDirectory(prefix="ak-") as folder:
        yield Path(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(cluster):
    async with ApiClient(load_connection(Path(cluster.kubeconfig))) as api:
        yield api


class Sandbox:
    """One simulated node, and ways to wait for what the API server says of it."""

    def __init__(self, api, name, kubeconfig, folder):
        self.api = api
        self.name = name
        self.root = folder / name
        self.kubeconfig = kubeconfig

    async def until(self, path, name, reached):
        """The first state of an object that is as wanted; None is an object that is not there."""
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    value = json.loads(await self.api.get(f"{path}/{name}"))
                except ApiError as exc:
                    if exc.reason != "NotFound":
                        raise
                    value = None
                if reached(value):
                    return value
                await asyncio.sleep(0.05)

    async def node(self, reached):
        return await self.until("/api/v1/nodes", self.name, lambda node: node is not None and reached(node))

    async def resource(self, name, capacity, allocatable):
        def reached(node):
            status = node["status"]
            return (status["capacity"].get(name), status["allocatable"].get(name)) == (capacity, allocatable)

        return await self.node(reached)

    async def pod(self, name, phase):
        return await self.until(PODS, name, lambda pod: pod is not None and pod["status"].get("phase") == phase)

    async def create(self, name, *, containers, **spec):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeSelector": {"kubernetes.io/hostname": self.name}, "containers": containers, **spec},
        }
        await self.api.post(PODS, body)

    async def delete(self, name):
        await self.api.delete(f"{PODS}/{name}")
        await self.until(PODS, name, lambda pod: pod is None)

    def start(self):
        spec = NodeSpec(name=self.name, cards=(SimulatedCard(id=f"sim-{self.name}-0", model="m", memory_bytes=2**34),))
        return asyncio.create_task(
            run_node(
                spec,
                root=self.root,
                api=self.api,
                image="accelkit.io/accelkit:test",
                # So long is to be seen that a plugin is away.
                plugin_grace_seconds=3.0,
                admin_kubeconfig=self.kubeconfig,
            )
        )


async def stop(running):
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(api, cluster, folder, request):
    name = f"node-{zlib.crc32(request.node.name.encode())}"
    # Pods cannot be made before the controller has made their service account.
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    sandbox = Sandbox(api, name, Path(cluster.kubeconfig), folder)
    running = sandbox.start()
    await sandbox.until(accounts, "default", lambda account: account is not None)
    await sandbox.node(lambda node: "taints" not in node["spec"] and "conditions" in node["status"])
    yield sandbox
    if not running.done():
        await stop(running)
    await api.delete(f"/api/v1/nodes/{name}")


class Plugin(DevicePluginServicer):
    """Lists its devices once and serves until it is closed."""

    def __init__(self, devices):
        self.devices = devices
        self.closed = asyncio.Event()

    async def GetDevicePluginOptions(self, request, context):
        return pb.DevicePluginOptions()

    async def ListAndWatch(self, request, context):
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID=each, health="Healthy") for each in self.devices])
        await self.closed.wait()

    async def Allocate(self, request, context):
        ids = ",".join(sorted(request.container_requests[0].devices_ids))
        response = pb.ContainerAllocateResponse(
            envs={"CARDS": ids}, devices=[pb.DeviceSpec(container_path="/dev/c", host_path="/dev/c", permissions="rw")]
        )
        return pb.AllocateResponse(container_responses=[response])


@contextlib.asynccontextmanager
async def plugin(sandbox, resource, devices):
    folder = sandbox.root / "var/lib/kubelet/device-plugins"
    endpoint = resource.partition("/")[2] + ".sock"
    servicer, server = Plugin(devices), grpc.aio.server()
    add_DevicePluginServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{folder / endpoint}")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
            request = pb.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
            await RegistrationStub(channel).Register(request, timeout=DEADLINE, wait_for_ready=True)
        yield
    finally:
        servicer.closed.set()
        await server.stop(0)


def asking(resource, number, name="main"):
    return [{"name": name, "image": "busybox", "resources": {"limits": {resource: str(number)}}}]


def given(pod):
    return json.loads(pod["metadata"]["annotations"]["sandbox.accelkit.io/containers"])


async def test_node_becomes_ready_with_labels_cards_and_lease(sandbox):
    node = await sandbox.node(lambda node: {"type": "Ready", "status": "True"}.items() <= ready(node).items())
    assert node["metadata"]["labels"]["feature.node.kubernetes.io/pci-simulated.present"] == "true"
    assert node["status"]["capacity"]["pods"] == "110"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{sandbox.name}"
    assert msgspec.json.decode(await sandbox.api.get(lease))["spec"]["holderIdentity"] == sandbox.name
    cards = json.loads((sandbox.root / "etc/accelkit/simulated-cards.json").read_text())["cards"]
    assert [card["id"] for card in cards] == [f"sim-{sandbox.name}-0"]


def ready(node):
    return next(each for each in node["status"]["conditions"] if each["type"] == "Ready")


async def test_configured_nodes_run_beside_control_plane(api, cluster, folder):
    own = Sandbox(api, "node-1", Path(cluster.kubeconfig), folder)
    await own.node(lambda node: "taints" not in node["spec"] and ready(node)["status"] == "True")
    assert cluster.nodes == ["node-1"]


async def test_a_pod_is_scheduled_runs_and_can_be_deleted(sandbox):
    init = [{"name": "init", "image": "busybox"}, {"name": "side", "image": "busybox", "restartPolicy": "Always"}]
    await sandbox.create("plain", containers=[{"name": "main", "image": "busybox"}], initContainers=init)
    pod = await sandbox.pod("plain", "Running")
    status = pod["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"
    assert "running" in status["containerStatuses"][0]["state"]
    assert [next(iter(each["state"])) for each in status["initContainerStatuses"]] == ["terminated", "running"]
    await sandbox.delete("plain")


async def test_devices_are_allocated_held_and_freed(sandbox):
    async with plugin(sandbox, CARD, ["a", "b"]):
        await sandbox.resource(CARD, "2", "2")
        await sandbox.create("both", containers=asking(CARD, 2))
        pod = await sandbox.pod("both", "Running")
        assert given(pod)["main"] == {
            "environment": {"CARDS": "a,b"},
            "devices": ["/dev/c"],
            "mounts": [],
            "device_ids": {CARD: ["a", "b"]},
        }
        await sandbox.create("late", containers=asking(CARD, 1), nodeName=sandbox.name)
        late = await sandbox.pod("late", "Failed")
        assert "Requested: 1, Available: 0" in late["status"]["message"]
        await sandbox.delete("both")
        await sandbox.create("next", containers=asking(CARD, 1))
        await sandbox.pod("next", "Running")
        await sandbox.delete("next")
        await sandbox.delete("late")
