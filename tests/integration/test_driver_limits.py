"""The node agent on a node with NVIDIA's cards, whose driver is the stand-in: XIDs, over-use, limits of containers."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import Cluster, Sandbox
from standin_nvml import Limits, StandinCard, StandinNvml
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.sandbox.run_folder import build_node_root

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

# Without simulated cards.
NODE = "node-2"
NODE_PATH = f"/api/v1/nodes/{NODE}"
GIB = 2**30


class Machine:
    """What lies below the root of a simulated node: cards, driver, processes, cgroups."""

    def __init__(self, root, library):
        self.root = root
        self.host = FakeHost(root).add("nvidia", 2, "T4")
        self.bdfs = [card.bdf for card in self.host.cards]
        self.libraries = root / "usr/lib/x86_64-linux-gnu"
        self.libraries.mkdir(parents=True)
        shutil.copy(library, self.libraries)
        self.driver = StandinNvml(self.libraries / "standin-nvml", control=root / "dev/nvidiactl")
        self.driver.cards = [
            StandinCard(bdf, f"GPU-{n}", n - 1, "Tesla T4", 15 * GIB, 0) for n, bdf in enumerate(self.bdfs, 1)
        ]
        self.driver.write()
        self.host.write("sys/fs/cgroup/cgroup.controllers", "memory")
        self.host.write("proc/1/comm", "init")
        self.host.write("proc/sys/kernel/random/boot_id", "0b0e0a1d-0000-4000-8000-000000000001")

    def make_cgroup(self, pod):
        """Make the cgroup of a pod's one container, as its runtime would; return it."""
        (status,) = pod["status"]["containerStatuses"]
        name = status["containerID"].rpartition("/")[2]
        folder = f"sys/fs/cgroup/kubepods/burstable/pod{pod['metadata']['uid']}/{name}"
        self.host.write(f"{folder}/cgroup.procs", "1")
        return self.root / folder

    def start_process(self, pid, pod, bdf, amount):
        uid = pod["metadata"]["uid"]
        self.host.write(f"proc/{pid}/comm", "train")
        self.host.write(f"proc/{pid}/cgroup", f"0::/kubepods/burstable/pod{uid}/c0ffee")
        self.driver.processes.append((bdf, pid, amount, "compute"))
        self.driver.write()


@pytest.fixture(scope="module")
def sandbox():
    """A sandbox of its own, since a node that had cards keeps what its kubelet knows of them."""
    with Sandbox(f"nodes: [{{name: node-1, cards: [{{memory: 16GiB}}]}}, {{name: {NODE}}}]") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def machine(sandbox, standin_library):
    """The second node, with cards and driver before anything is installed, and then the agent as a user gets it."""
    machine = Machine(build_node_root(Path(sandbox.facts.run_folder), 1), standin_library)
    settings = {"device_plugin_cgroups": True, "accelkit_shared_nodes": ["node-1", NODE]}
    sandbox.playbook("site.yml", "--skip-tags", "stages", "-e", json.dumps(settings))
    return machine


@pytest.fixture
async def cluster(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        yield Cluster(api, sandbox)


async def read_cards(cluster):
    annotations = (await cluster.get(NODE_PATH))["metadata"]["annotations"]
    return {card["id"]: card for card in json.loads(annotations.get("accelkit.io/inventory", '{"cards": []}'))["cards"]}


async def test_driver_limits_containers_and_its_errors_disable_cards(cluster, machine):
    await until(lambda: read_cards(cluster), accept=lambda found: set(found) == {"GPU-1", "GPU-2"})
    await cluster.create_pod("held", memory=4, node=NODE)
    await cluster.running("held")
    pod = await cluster.until("held", lambda pod: pod["status"]["containerStatuses"][0]["containerID"])
    cgroup = machine.make_cgroup(pod)
    assignment = json.loads(pod["metadata"]["annotations"]["accelkit.io/assignment"])
    (share,) = assignment["containers"]["main"]
    bdf = machine.bdfs[int(share["card"][-1]) - 1]

    async def enforced_by():
        maps = (await cluster.get("/api/v1/namespaces/accelkit/configmaps"))["items"]
        written = [each["data"]["allocations.json"] for each in maps if each["metadata"]["name"] == NODE]
        return [each.get("enforced_by") for one in written for each in json.loads(one)["pods"]] == ["nvml"]

    await until(enforced_by)
    # The agent names the cgroup as it sees it.
    limits = {(of, folder.resolve()): each for (of, folder), each in machine.driver.read_limits().items()}
    assert limits == {(bdf, cgroup.resolve()): Limits(0, 4 * GIB)}
    assert machine.driver.read_notes() == []

    machine.start_process(4711, pod, bdf, 6 * GIB)
    await cluster.told("MemoryOverUse", "held")

    # An error that asks for a reset takes the card out, and only a person or a new start brings it back.
    machine.driver.raise_xid(bdf, 13)
    machine.driver.raise_xid(bdf, 79)
    await until(lambda: read_cards(cluster), accept=lambda found: found[share["card"]].get("health") == "unhealthy")
    card = (await read_cards(cluster))[share["card"]]
    assert card["health_reason"].startswith("the driver reported XID 79 (the card has fallen off the bus)")
    assert card["fault"].startswith("xid 79 at 0b0e0a1d-")
    events = (await cluster.get("/api/v1/namespaces/default/events"))["items"]
    errors = [each["message"] for each in events if each["reason"] == "CardError"]
    assert [message.partition(" (")[0] for message in errors] == [f"card {share['card']}: the driver reported XID 79"]
    await cluster.api.patch(NODE_PATH, {"metadata": {"annotations": {"accelkit.io/mended": share["card"]}}})

    async def mended():
        annotations = (await cluster.get(NODE_PATH))["metadata"]["annotations"]
        card = (await read_cards(cluster))[share["card"]]
        return "health" not in card and "accelkit.io/mended" not in annotations

    await until(mended)
