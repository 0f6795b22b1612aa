"""GCUShare's unmodified pods on nodes that speak its dialect: installed, used and removed by the playbooks."""

from __future__ import annotations

import json
import urllib.request

import pytest
from conftest import PODS, Cluster, Sandbox

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

MEMORY, COUNT, LABEL = "enflame.com/gcu-memory", "enflame.com/gcu-count", "enflame.com/gcushare"
DIALECT = ("-e", json.dumps({"accelkit_dialects": ["gcushare"]}))
NODES = "nodes: [{name: node-1, cards: [" + ", ".join(["{memory: 16GiB}"] * 8) + "]}]"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        sandbox.playbook("site.yml", *DIALECT)
        yield sandbox


def inspect(sandbox: Sandbox, path: str) -> dict:
    with urllib.request.urlopen(f"{sandbox.facts.extender_url}{path}", timeout=60) as answer:  # noqa: S310 - its own URL
        return json.load(answer)


async def test_example_of_gcushare_manual_runs_and_is_removed_completely(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        node = await cluster.get("/api/v1/nodes/node-1")
        assert node["metadata"]["labels"][LABEL] == "true"
        assert (node["status"]["allocatable"][MEMORY], node["status"]["allocatable"][COUNT]) == ("128", "8")

        for units in (4, 8, 12, 20):
            await cluster.create_pod(f"gcushare-pod-{units}", containers={"main": {MEMORY: units}})
            if units != 20:
                await cluster.running(f"gcushare-pod-{units}")
        assert "1 insufficient GCU Memory in one gcu device" in await cluster.refused("gcushare-pod-20")

        devices = {}
        for units in (4, 8, 12):
            pod = await cluster.until(
                f"gcushare-pod-{units}",
                lambda pod: pod["metadata"]["annotations"].get("enflame.com/gcu-device-assigned") == "true",
            )
            written = pod["metadata"]["annotations"]
            assert written["enflame.com/gcu-device-memory"] == "16"
            assert written["enflame.com/gcu-device-memory-request"] == str(units)
            assert int(written["enflame.com/gcu-device-assign-time"]) > 10**18
            devices[units] = written["enflame.com/gcu-device-id"]
        assert devices == {4: "0", 8: "0", 12: "1"}

        shown = inspect(sandbox, "/gcushare-scheduler/inspect")
        (of_node,) = shown["nodes"]
        assert [(d["id"], d["totalGCU"], d["usedGCU"], d["availableGCU"]) for d in of_node["devices"]] == [
            *((0, 16, 12, 4), (1, 16, 12, 4)),
            *((number, 16, 0, 16) for number in range(2, 8)),
        ]
        first = next(pod for pod in of_node["devices"][0]["pods"] if pod["name"] == "gcushare-pod-4")
        assert (first["usedGCU"], first["namespace"]) == (4, "default")
        assert first["createTime"].endswith("Z")
        assert inspect(sandbox, "/gcushare-scheduler/inspect/node-1") == shown
        assert sandbox.command("audit", "--extender", sandbox.facts.extender_url, "--wait", "30").returncode == 0

        # All sharing containers of a pod go to one card, and their sum is at most one.
        await cluster.create_pod("apart", containers={"a": {MEMORY: 10}, "b": {MEMORY: 10}})
        assert "insufficient GCU Memory in one gcu device" in await cluster.refused("apart")

        await cluster.delete_pods()
        assert "changed=0" in sandbox.playbook("playbooks/verify.yml", *DIALECT).stdout
        sandbox.playbook("playbooks/remove.yml", *DIALECT)
        node = await cluster.get("/api/v1/nodes/node-1")
        assert LABEL not in node["metadata"]["labels"]
        assert not {MEMORY, COUNT} & node["status"]["capacity"].keys()
        assert not [key for key in node["metadata"].get("annotations", {}) if "accelkit" in key]
        assert not [key for key in node["metadata"]["labels"] if "accelkit.io" in key]
        assert (await cluster.get(PODS))["items"] == []
