"""The unit of memory changed on a running cluster: finer, coarser, refused, with workloads that would change meaning."""

from __future__ import annotations

import asyncio
import json
import time

import msgspec
import pytest
from conftest import DEADLINE, Cluster, Sandbox

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.node.message_size import list_bytes
from accelkit.model.card import Card

pytestmark = pytest.mark.integration

GIB = 2**30
MIB = 2**20
NODES = """
nodes:
  - {name: node-1, cards: [{memory: 16GiB}]}
  - {name: node-2, cards: [{memory: 16GiB}]}
"""


@pytest.fixture(scope="module")
def own():
    """A sandbox of this module's own, since the unit is one for the cluster."""
    sandbox = Sandbox(NODES)
    try:
        sandbox.playbook("site.yml")
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture
async def units(own):
    async with ApiClient(load_connection(own.kubeconfig)) as api:
        cluster = Cluster(api, own)
        yield cluster
        await api.delete("/apis/apps/v1/namespaces/default/deployments")
        await cluster.delete_pods()
        await asyncio.to_thread(own.playbook, "site.yml", "-e", "accelkit_unit_change=accept")
        for node in ("node-1", "node-2"):
            await until_unit(cluster, node, GIB)


async def inventory(cluster, node):
    found = await cluster.get(f"/api/v1/nodes/{node}")
    return json.loads(found["metadata"]["annotations"]["accelkit.io/inventory"]), found["status"]["allocatable"]


async def until_unit(cluster, node, unit_bytes, *, cards=16 * GIB):
    deadline = time.monotonic() + DEADLINE
    while True:
        published, allocatable = await inventory(cluster, node)
        if published["unit_bytes"] == unit_bytes and allocatable["accelkit.io/memory"] == str(cards // unit_bytes):
            return
        assert time.monotonic() < deadline, (published, allocatable)
        await asyncio.sleep(0.2)


async def change(cluster, unit, *, check=True, accept=True, extra=()):
    arguments = ["-e", f"accelkit_unit={unit}", *(["-e", "accelkit_unit_change=accept"] if accept else []), *extra]
    return await asyncio.to_thread(cluster.sandbox.playbook, "site.yml", *arguments, check=check)


def held(given):
    return given["main"]["environment"]["ACCELKIT_MEMORY_BYTES"]


async def test_a_unit_that_the_kubelet_cannot_take_is_refused_before_anything_is_changed(units):
    before = await units.get("/apis/apps/v1/daemonsets")
    done = await change(units, "0.001", check=False)
    assert done.returncode
    cards = [Card("sim-node-1-0", "v", "m", 16 * GIB)]
    assert list_bytes(cards, 10**6) < 4 * MIB  # one card would do
    assert (await units.get("/apis/apps/v1/daemonsets"))["items"] == before["items"]


async def test_a_finer_unit_applies_at_once_and_amounts_stay(units):
    await units.create_pod("old", memory=4)
    assert held(await units.running("old")) == str(4 * GIB)
    await change(units, "1MiB")
    await until_unit(units, "node-1", MIB)
    # 12 GiB are left, though the kubelet counts 16384 - 4 units.
    await units.create_pod("much", memory=12 * 1024 + 1)
    assert "insufficient" in (await units.refused("much")).lower()
    await units.create_pod("rest", memory=12 * 1024)
    assert held(await units.running("rest")) == str(12 * GIB)
    used = {node["name"]: node["totals"]["used_bytes"] for node in units.sandbox.inspect()["nodes"]}
    assert used["node-1"] == 16 * GIB


async def test_a_coarser_unit_waits_for_the_pods_of_its_node(units):
    await change(units, "1MiB")
    await until_unit(units, "node-1", MIB)
    await until_unit(units, "node-2", MIB)
    await units.create_pod("old", memory=4096)
    await units.running("old")
    await change(units, "1GiB")
    await until_unit(units, "node-2", GIB)
    published, allocatable = await inventory(units, "node-1")
    assert (published["unit_bytes"], published["next_unit_bytes"]) == (MIB, GIB)
    assert allocatable["accelkit.io/memory"] == str(16 * 1024)
    await units.create_pod("new", memory=4)
    assert "units of 1MiB, not 1GiB" in await units.refused("new")
    await units.create_pod("elsewhere", node="node-2", memory=4)
    assert held(await units.running("elsewhere")) == str(4 * GIB)
    # A second run changes nothing and asks nothing: what was accepted stays accepted.
    again = await change(units, "1GiB", accept=False)
    assert "changed=0" in again.stdout
    await units.api.delete("/api/v1/namespaces/default/pods/old", {"gracePeriodSeconds": 0})
    await until_unit(units, "node-1", GIB)
    assert held(await units.running("new")) == str(4 * GIB)


async def test_workloads_whose_requests_change_meaning_must_be_accepted(units):
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
    said = "Deployment default/web: main asks for 8: 8 GiB until now, 8 MiB in units of 1MiB"
    done = await change(units, "1MiB", accept=False, check=False)
    assert done.returncode
    assert said in " ".join(done.stdout.split())
    shown = await change(units, "1MiB", extra=("--check",))
    assert said in " ".join(shown.stdout.split())
    published, _ = await inventory(units, "node-1")
    assert published["unit_bytes"] == GIB
    assert msgspec.json.encode(published)
