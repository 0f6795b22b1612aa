"""Drivers come to bare nodes by containers, one DaemonSet for each kernel, and everything of them is removed.

The nodes of the sandbox say that they run two kernels. Its kubelets only say that a driver's container runs; what that
does to its host is then done to the node's files, which the agents read.
"""

import asyncio
import json

import pytest
from conftest import Cluster, Sandbox
from standin_driver import StandinDriver
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.fake_host.host import FakeHost

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

KERNELS = {"node-1": "6.1.0-18-amd64", "node-2": "6.1.0-20-amd64"}
NODES = "nodes:\n" + "".join(
    f"  - name: {name}\n    kernel: {kernel}\n    system: Debian GNU/Linux 12 (bookworm)\n"
    '    labels: {feature.node.kubernetes.io/pci-1e36.present: "true"}\n'
    for name, kernel in KERNELS.items()
)
SETTINGS = {
    "accelkit_driver_mode": "container",
    "accelkit_driver_vendors": {
        "enflame": {"image": "registry.invalid/enflame:${KERNEL_FULL_VERSION}", "module": "enflame"}
    },
    "driver_look_for_images": False,
    "driver_timeout": 120,
}
SETS, PODS = "/apis/apps/v1/namespaces/accelkit/daemonsets", "/api/v1/namespaces/accelkit/pods"
CONTAINERS = {"labelSelector": "app.kubernetes.io/component=driver-container"}
SECONDS = 120.0


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def drivers(sandbox):
    """What a driver's container does on each node; the cards are there, and bare."""
    drivers = {}
    for name, kernel in KERNELS.items():
        host = FakeHost(sandbox.paths.nodes / name, name=name).add("enflame", 1, "S60")
        drivers[name] = StandinDriver(host, kernel)
        drivers[name].unload()
    return drivers


@pytest.fixture
async def cluster(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        yield Cluster(api, sandbox)


async def load_drivers(cluster, drivers):
    """Have each driver loaded once its container runs, until all are."""
    loaded = set()
    while loaded != drivers.keys():
        pods = json.loads(await cluster.api.get(PODS, query=CONTAINERS))["items"]
        for pod in pods:
            node = pod["spec"].get("nodeName", "")
            if pod["status"].get("phase") == "Running" and node not in loaded:
                assert drivers[node].load(KERNELS[node])
                loaded.add(node)
        await asyncio.sleep(0.5)


async def read_stages(cluster, stage):
    """Outcome, reason and evidence of a stage by node, as `accelkit verify` tells them."""
    done = await asyncio.to_thread(cluster.sandbox.command, "verify", "-o", "json", check=False)
    return {
        node["name"]: (cell["outcome"], cell["reason"], cell["evidence"])
        for node in json.loads(done.stdout)["nodes"]
        for cell in node["stages"]
        if cell["stage"] == stage
    }


async def test_each_kernel_gets_its_driver_and_removal_deletes_all_drivers(cluster, drivers):
    loading = asyncio.create_task(load_drivers(cluster, drivers))
    settings = ("-e", json.dumps(SETTINGS))
    await asyncio.to_thread(cluster.sandbox.playbook, "site.yml", *settings)
    async with asyncio.timeout(SECONDS):
        await loading
    sets = json.loads(await cluster.api.get(SETS, query=CONTAINERS))["items"]
    found = {each["metadata"]["annotations"]["accelkit.io/driver-kernel"]: each["status"] for each in sets}
    assert set(found) == set(KERNELS.values())
    assert [each["numberReady"] for each in found.values()] == [1, 1]
    told = await read_stages(cluster, "driver")
    for node, kernel in KERNELS.items():
        assert told[node][:2] == ("pass", "")
        assert f"for kernel {kernel}" in told[node][2]

    drivers["node-2"].unload()
    told = await until(
        lambda: read_stages(cluster, "driver"),
        accept=lambda told: told["node-2"][0] == "fail",
        seconds=SECONDS,
        every=2,
    )
    assert told["node-2"][1] == "DriverMissing"
    assert told["node-1"][0] == "pass"

    await asyncio.to_thread(cluster.sandbox.playbook, "playbooks/remove.yml", *settings)
    assert json.loads(await cluster.api.get(SETS))["items"] == []
    for node in (await cluster.get("/api/v1/nodes"))["items"]:
        assert not [key for key in node["metadata"]["labels"] if key.startswith("accelkit.io/")]
