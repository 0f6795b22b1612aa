"""KubeGPU's pods on nodes whose agents serve `nvidia.com/gpu`: installed, used and removed by the playbooks."""

import json

import pytest
from conftest import Cluster, Sandbox

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GPU, MEMORY = "nvidia.com/gpu", "accelkit.io/memory"
SETTINGS = ("-e", json.dumps({"accelkit_dialects": ["kubegpu"], "accelkit_policy": "topology"}))
# Neighbours by number are on different sockets.
CARDS = ", ".join(
    f"{{memory: {memory}GiB, numa: {number % 2}}}" for number, memory in enumerate((16, 16, 16, 32, 16, 32))
)
NODES = f"nodes: [{{name: node-1, cards: [{CARDS}]}}]"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        sandbox.playbook("site.yml", *SETTINGS)
        yield sandbox


def annotate(**containers):
    """KubeGPU's annotation: for each container the resources of its cards, with their amounts."""
    requests = {
        name: {"requests": {f"resource/group/{resource}": amount for resource, amount in found.items()}}
        for name, found in containers.items()
    }
    return {"KubeDevice/DeviceInfo": json.dumps({"runningcontainer": requests})}


def cards_of(given):
    return sorted(int(device.rpartition("-")[2]) for device in given["main"]["device_ids"][GPU])


@pytest.mark.long
async def test_pod_gets_cards_of_its_group_and_is_removed_completely(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        node = await cluster.get("/api/v1/nodes/node-1")
        assert (node["status"]["allocatable"][GPU], node["status"]["allocatable"][MEMORY]) == ("6", "128")

        large = {
            f"gpugrp1/A/gpu/{card}/{key}": value
            for card in "xy"
            for key, value in (("cards", 1), ("memory", 2**34 + 1))
        }
        await cluster.create_pod("large", containers={"main": {GPU: 2}}, annotations=annotate(main=large))
        assert cards_of(await cluster.running("large")) == [3, 5]
        await cluster.create_pod("share", containers={"main": {MEMORY: 4}})
        await cluster.running("share")
        # Of the cards that are left the one that is alone on its socket is shared.
        await cluster.create_pod("best", containers={"main": {GPU: 2}})
        assert cards_of(await cluster.running("best")) == [0, 2]
        socket = {f"gpugrp1/A/gpu/{card}/cards": 1 for card in "xy"}
        await cluster.create_pod("full", containers={"main": {GPU: 2}}, annotations=annotate(main=socket))
        assert "Insufficient nvidia.com/gpu" in await cluster.refused("full")

        (shown,) = sandbox.inspect("node-1")["nodes"]
        assert {each["pod"]: each["links"] for each in shown["sets"]} == {
            "large": {"NUMA node": 1},
            "best": {"NUMA node": 1},
        }
        # By what the API server shows alone, and in comparison with the extender.
        assert sandbox.command("audit", "--no-ledger", "--wait", "30").returncode == 0
        assert sandbox.command("audit", "--extender", sandbox.facts.extender_url, "--wait", "30").returncode == 0

        await cluster.delete_pods()
        assert "changed=0" in sandbox.playbook("playbooks/verify.yml", *SETTINGS).stdout
        sandbox.playbook("playbooks/remove.yml", *SETTINGS)
        node = await cluster.get("/api/v1/nodes/node-1")
        assert not {GPU, MEMORY} & node["status"]["allocatable"].keys()
        assert "accelkit.io/advertised" not in node["metadata"].get("annotations", {})
