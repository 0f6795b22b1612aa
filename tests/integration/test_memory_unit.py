"""The unit of memory changed on a running cluster: finer, coarser, refused, and workloads whose meaning changes."""

import asyncio
import json

import pytest
from conftest import DEADLINE, Cluster, Sandbox
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(900)]

GIB = 2**30
AGENTS = "/apis/apps/v1/namespaces/accelkit/daemonsets/accelkit-node-agent"
FINE = 256 * 2**20
SIZES = {"node-1": 16 * GIB, "node-2": 160 * GIB}
NODES = """
nodes:
  - {name: node-1, cards: [{memory: 16GiB}]}
  - {name: node-2, cards: [{memory: 160GiB}]}
"""


@pytest.fixture(scope="module")
def fresh():
    """A sandbox of this module's own, since the unit is one for the cluster; `refused` is a first installation."""
    with Sandbox(NODES) as sandbox:
        sandbox.refused = sandbox.playbook("site.yml", "-e", "accelkit_unit=0.001GB", check=False)
        yield sandbox


@pytest.fixture(scope="module")
def own(fresh):
    """The same, with an installation."""
    fresh.playbook("site.yml")
    return fresh


@pytest.fixture
async def units(own):
    async with ApiClient(load_connection(own.kubeconfig)) as api:
        cluster = Cluster(api, own)
        yield cluster
        await api.delete("/apis/apps/v1/namespaces/default/deployments")
        await cluster.delete_pods()
        if "1GiB" not in (await cluster.get(AGENTS))["spec"]["template"]["spec"]["containers"][0]["args"]:
            await asyncio.to_thread(own.playbook, "site.yml", "-e", "accelkit_unit_change=accept")
        for node in SIZES:
            await until_unit(cluster, node, GIB)


async def inventory(cluster, node):
    found = await cluster.get(f"/api/v1/nodes/{node}")
    return json.loads(found["metadata"]["annotations"]["accelkit.io/inventory"]), found["status"]["allocatable"]


async def until_unit(cluster, node, unit_bytes):
    wanted = unit_bytes, str(SIZES[node] // unit_bytes)

    async def read():
        published, allocatable = await inventory(cluster, node)
        return published["unit_bytes"], allocatable["accelkit.io/memory"]

    await until(read, accept=wanted.__eq__, seconds=DEADLINE, every=0.2)


async def change(cluster, unit, *, check=True, accept=True, extra=()):
    arguments = ["-e", f"accelkit_unit={unit}", *(["-e", "accelkit_unit_change=accept"] if accept else []), *extra]
    return await asyncio.to_thread(cluster.sandbox.playbook, "site.yml", *arguments, check=check)


def held(given):
    return given["main"]["environment"]["ACCELKIT_MEMORY_BYTES"]


def words(done):
    return " ".join(done.stdout.split())


def test_first_install_with_too_small_unit_fails_and_registers_nothing(fresh):
    said = words(fresh.refused)
    assert fresh.refused.returncode
    assert "node node-2: a unit of 0.001GB splits the memory of 1 card into 171,798 devices" in said
    assert "choose at least " in said


@pytest.mark.long
async def test_unit_too_small_for_kubelet_is_refused_before_any_change(units):
    before = await daemon_sets(units)
    done = await change(units, "0.001GB", check=False)
    assert done.returncode
    assert "the unit 0.001GB is too small for these nodes: node-2: " in words(done)
    assert await daemon_sets(units) == before


async def daemon_sets(cluster):
    """All but what controllers write: how far the agents of the test before have come."""
    found = (await cluster.get("/apis/apps/v1/daemonsets"))["items"]
    passing = ("resourceVersion", "managedFields")
    return [(each["spec"], {k: v for k, v in each["metadata"].items() if k not in passing}) for each in found]


@pytest.mark.long
async def test_finer_unit_applies_immediately_and_keeps_amounts(units):
    await units.create_pod("old", memory=4)
    assert held(await units.running("old")) == str(4 * GIB)
    await change(units, "256MiB")
    await until_unit(units, "node-1", FINE)
    # 12 GiB are left, though the kubelet counts 64 - 4 units.
    await units.create_pod("much", memory=12 * 4 + 1)
    assert "insufficient" in (await units.refused("much")).lower()
    await units.create_pod("rest", memory=12 * 4)
    assert held(await units.running("rest")) == str(12 * GIB)
    used = {node["name"]: node["totals"]["used_bytes"] for node in units.sandbox.inspect()["nodes"]}
    assert used["node-1"] == 16 * GIB


@pytest.mark.long
async def test_a_coarser_unit_waits_for_the_pods_of_its_node(units):
    await change(units, "256MiB")
    await until_unit(units, "node-1", FINE)
    await until_unit(units, "node-2", FINE)
    await units.create_pod("old", memory=16)
    await units.running("old")
    await change(units, "1GiB")
    await until_unit(units, "node-2", GIB)
    published, allocatable = await inventory(units, "node-1")
    assert (published["unit_bytes"], published["next_unit_bytes"]) == (FINE, GIB)
    assert allocatable["accelkit.io/memory"] == str(16 * 4)
    await units.create_pod("new", memory=4)
    assert "node does not use the cluster's memory unit: it still uses 256MiB" in await units.refused("new")
    await units.create_pod("elsewhere", node="node-2", memory=4)
    assert held(await units.running("elsewhere")) == str(4 * GIB)
    # A second run changes nothing and asks nothing: what was accepted stays accepted.
    again = await change(units, "1GiB", accept=False)
    assert "changed=0" in again.stdout
    await units.api.delete("/api/v1/namespaces/default/pods/old", {"gracePeriodSeconds": 0})
    await until_unit(units, "node-1", GIB)
    assert held(await units.running("new")) == str(4 * GIB)


@pytest.mark.long
async def test_unit_change_requires_acceptance_if_workloads_change_meaning(units):
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "main", "image": "busybox", "resources": {"limits": {"accelkit.io/memory": "8"}}}
                    ]
                },
            },
        },
    }
    await units.api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    said = "Deployment default/web: main requests 8: 8 GiB until now, 2 GiB in units of 256MiB"
    done = await change(units, "256MiB", accept=False, check=False)
    assert done.returncode
    assert said in words(done)
    shown = await change(units, "256MiB", extra=("--check",))
    assert said in words(shown)
    published, _ = await inventory(units, "node-1")
    assert published["unit_bytes"] == GIB
