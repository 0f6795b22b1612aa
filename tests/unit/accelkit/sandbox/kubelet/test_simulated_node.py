"""A simulated node as the API server and the node agent see it."""

import asyncio
import json
import platform
import random
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from fake_api.kubeconfig import write_kubeconfig
from fake_api.watches import WatchedApi
from support.waiting import until

from accelkit.errors import ApiError, SandboxError
from accelkit.node._proto import podresources_pb2 as pb
from accelkit.node._proto.podresources_pb2_grpc import PodResourcesListerStub
from accelkit.sandbox.kubelet import kubelet, run_node
from accelkit.sandbox.kubelet.devices.checkpoint import CHECKPOINT_NAME, save_checkpoint
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import NodeResources, PluginDevice, PluginOptions
from accelkit.sandbox.kubelet.node_status import NodeStatusBuilder
from accelkit.sandbox.nodes import NodeSpec, SimulatedCard

DEADLINE = 30
CARD = "example.com/card"
NODE = "/api/v1/nodes/n"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"
SPEC = NodeSpec(
    name="n",
    cards=(SimulatedCard(id="c", model="m", memory_bytes=2**34),),
    labels={"zone": "a", "node.kubernetes.io/instance-type": "large"},
    cpu=3,
    memory_bytes=2**33,
    pods=7,
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    for name in ("_STATUS_SECONDS", "_STATUS_RETRY_SECONDS", "_LEASE_SECONDS"):
        monkeypatch.setattr(kubelet, name, 0.01)


@pytest.fixture
def root(tmp_path_factory):
    # Sockets lie below it, so its name is short.
    return tmp_path_factory.mktemp("n")


@pytest.fixture
def api():
    return WatchedApi()


@asynccontextmanager
async def running(api, root, spec=SPEC):
    kubeconfig = write_kubeconfig(root, "https://fake")
    task = asyncio.create_task(
        run_node(
            spec,
            root=root / "r",
            api=api,
            image="i",
            plugin_grace_seconds=0.05,
            admin_kubeconfig=kubeconfig,
            environ={},
        )
    )
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, SandboxError):
            await asyncio.wait_for(task, DEADLINE)


async def follow(api, path, wanted):
    await until(lambda: path in api.objects and wanted(api.objects[path]))
    return api.objects[path]


def has_status(node):
    return "status" in node


async def test_node_registers_with_default_labels_and_labels_of_its_spec(api, root):
    async with running(api, root):
        node = await follow(api, NODE, has_status)
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    assert (node["apiVersion"], node["kind"], node["spec"]) == ("v1", "Node", {"providerID": "simulated://n"})
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "n",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        "node.kubernetes.io/instance-type": "large",
        "feature.node.kubernetes.io/pci-simulated.present": "true",
        "zone": "a",
    }
    assert node["status"]["nodeInfo"]["architecture"] == arch


async def test_node_without_cards_lacks_card_label(api, root):
    async with running(api, root, NodeSpec(name="n")):
        node = await follow(api, NODE, has_status)
    assert "feature.node.kubernetes.io/pci-simulated.present" not in node["metadata"]["labels"]


async def test_existing_node_keeps_foreign_labels_and_spec(api, root):
    api.store("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"ours": "x"}}, "spec": {"unschedulable": True}})
    async with running(api, root):
        node = await follow(api, NODE, has_status)
    assert node["spec"] == {"unschedulable": True}
    assert (node["metadata"]["labels"]["ours"], node["metadata"]["labels"]["zone"]) == ("x", "a")


async def test_ready_node_reports_capacity_conditions_and_addresses(api, root):
    async with running(api, root):
        status = (await follow(api, NODE, has_status))["status"]
    own = {"cpu": "3", "memory": str(2**33), "pods": "7", "ephemeral-storage": "100Gi"}
    assert status["capacity"] == status["allocatable"] == own
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert {each["type"]: each["address"] for each in status["addresses"]} == {
        "InternalIP": "127.0.0.1",
        "Hostname": "n",
    }
    info = status["nodeInfo"]
    assert info["operatingSystem"] == "linux"
    assert info["kernelVersion"] == platform.release()
    assert len(info["bootID"]) == 36
    # metav1.Time has whole seconds.
    for condition in status["conditions"]:
        datetime.strptime(condition["lastHeartbeatTime"], "%Y-%m-%dT%H:%M:%SZ").astimezone(UTC)
    # As machines have them: a machine id is a UUID without dashes.
    assert info["machineID"] == info["systemUUID"].replace("-", "") != info["systemUUID"]


async def test_node_lease_is_created_and_renewed(api, root):
    async with running(api, root):
        first = await follow(api, LEASE, lambda _: True)
        assert (first["kind"], first["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
        assert first["spec"]["holderIdentity"] == "n"
        # It may miss some renewals before others take the node for dead.
        assert first["spec"]["leaseDurationSeconds"] >= 4 * 10
        # A MicroTime, as the API server reads it.
        datetime.strptime(first["spec"]["renewTime"], "%Y-%m-%dT%H:%M:%S.%fZ").astimezone(UTC)
        await follow(api, LEASE, lambda lease: lease["spec"]["renewTime"] > first["spec"]["renewTime"])


async def test_writes_are_retried_while_api_server_is_unavailable(api, root):
    for path in ("/nodes", "/leases", "/status"):
        api.fail(ApiError("away", status=503), path=path, times=2)
    async with running(api, root):
        await follow(api, NODE, has_status)
        await follow(api, LEASE, lambda _: True)


async def test_node_registration_timeout_is_an_error(api, root, monkeypatch):
    monkeypatch.setattr(kubelet, "_REGISTRATION_SECONDS", 0.05)
    api.fail(ApiError("away", status=503), times=None)
    async with running(api, root) as task:
        with pytest.raises(SandboxError, match="cannot register n at https://fake"):
            await asyncio.wait_for(asyncio.shield(task), DEADLINE)


async def test_node_root_that_cannot_be_created_is_an_error(root):
    (root / "r").touch()
    async with running(WatchedApi(), root) as task:
        with pytest.raises(SandboxError, match="cannot create the root of n"):
            await asyncio.wait_for(asyncio.shield(task), DEADLINE)


async def test_node_root_has_files_for_node_agent_and_kubelet_socket(api, root):
    pods = "/api/v1/namespaces/default/pods"
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    }
    async with running(api, root):
        await follow(api, NODE, has_status)
        folder = root / "r"
        assert json.loads((folder / "etc/accelkit/simulated-cards.json").read_text())["cards"][0]["id"] == "c"
        assert (folder / "dev").is_dir()
        assert (folder / "var/log/pods").is_dir()
        assert (folder / "var/lib/kubelet/device-plugins/kubelet.sock").is_socket()
        api.store(pods, body)
        await follow(api, f"{pods}/p", lambda pod: pod.get("status", {}).get("phase") == "Running")
        # The pods that the kubelet itself says are there.
        socket = folder / "var/lib/kubelet/pod-resources/kubelet.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            answer = await PodResourcesListerStub(channel).List(pb.ListPodResourcesRequest(), timeout=DEADLINE)
        assert [each.name for each in answer.pod_resources] == ["p"]
    assert NODE in api.objects


def checkpoint_of(root, resource):
    manager = DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1))  # noqa: S311 - no secret
    manager.connect_plugin(resource, PluginOptions(), None)
    manager.update_devices(resource, [PluginDevice(id="c")])
    folder = root / "r/var/lib/kubelet/device-plugins"
    folder.mkdir(parents=True)
    save_checkpoint(folder / CHECKPOINT_NAME, manager)


async def test_restored_resource_reports_zero_devices_until_grace_period_ends(api, root):
    checkpoint_of(root, CARD)
    patches = []
    api.after.append(lambda request: patches.append(request.body) if request.path.endswith("/status") else None)
    async with running(api, root):
        await follow(api, NODE, has_status)
        await until(lambda: patches and CARD not in patches[-1]["status"]["capacity"])
    # Written as 0 once, and not again: whoever deletes the key does not get it back.
    assert api.objects[NODE]["status"]["capacity"][CARD] == "0"


class Clock:
    """Both clocks of a status."""

    def __init__(self):
        self.seconds = 0.0
        self.start = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.start + timedelta(seconds=self.seconds)

    def build(self):
        return NodeStatusBuilder(SPEC, now=self.now, clock=lambda: self.seconds)


NOTHING = NodeResources(capacity={}, allocatable={}, removed=frozenset())


def resources(capacity, allocatable, removed=()):
    return NodeResources(capacity={CARD: capacity}, allocatable={CARD: allocatable}, removed=frozenset(removed))


def test_removed_resource_is_written_as_zero_until_acknowledged():
    builder = Clock().build()
    removed = NodeResources(capacity={}, allocatable={}, removed=frozenset({CARD}))
    builder.build_patch(removed)
    again = builder.build_patch(NOTHING)
    assert (again["status"]["capacity"][CARD], again["status"]["allocatable"][CARD]) == ("0", "0")
    builder.acknowledge(again)
    assert CARD not in builder.build_patch(NOTHING)["status"]["capacity"]


def test_resource_restored_before_removal_is_acknowledged_is_reported():
    builder = Clock().build()
    builder.build_patch(NodeResources(capacity={}, allocatable={}, removed=frozenset({CARD})))
    status = builder.build_patch(resources(4, 3))["status"]
    assert (status["capacity"][CARD], status["allocatable"][CARD]) == ("4", "3")
    assert builder.build_patch(NOTHING)["status"]["capacity"].get(CARD) is None


def test_heartbeat_is_updated_every_300_seconds_and_transition_time_is_fixed():
    clock = Clock()
    builder = clock.build()

    def beat(seconds):
        clock.seconds = seconds
        (ready,) = [each for each in builder.build_patch(NOTHING)["status"]["conditions"] if each["type"] == "Ready"]
        return [(ready[f"last{each}Time"] - clock.start).total_seconds() for each in ("Heartbeat", "Transition")]

    assert [beat(seconds) for seconds in (0, 299, 300, 599, 600)] == [[0, 0], [0, 0], [300, 0], [300, 0], [600, 0]]


def test_system_uuid_is_stable_per_node_and_unique():
    def identity(name):
        spec = NodeSpec(name=name)
        builder = NodeStatusBuilder(spec, now=Clock().now, clock=lambda: 0.0)
        return builder.build_patch(NOTHING)["status"]["nodeInfo"]["systemUUID"]

    assert identity("a") == identity("a") != identity("b")
