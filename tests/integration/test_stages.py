"""The checks that do work, with cards of two vendors: site.yml and verify.yml run them, remove.yml forgets."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import pytest
from cluster_objects import changed, kubeconfig_of, load_yaml
from conftest import PODS, REPOSITORY, Cluster, Sandbox
from support.waiting import until

from accelkit.enablement.work.pods import SELECTOR
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.fake_host.host import FakeHost

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

NODES = """
nodes:
  - {name: node-1, cards: [{count: 2, memory: 16GiB}]}
  - {name: node-2, cards: [{memory: 16GiB}]}
  - {name: node-3, labels: {feature.node.kubernetes.io/pci-1e36.present: "true"}}
"""
CHECKS = ("--tags", "stages")
PASS = ("pass", "pass")
READING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        FakeHost(sandbox.paths.nodes / "node-3").add("enflame", 1, "S60")
        sandbox.playbook("site.yml")
        yield sandbox


@pytest.fixture
async def cluster(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        yield cluster
        await cluster.delete_pods()


async def results(cluster: Cluster, node: str) -> dict:
    annotations = (await cluster.get(f"/api/v1/nodes/{node}"))["metadata"]["annotations"]
    return json.loads(annotations["accelkit.io/stages"])["results"]


async def outcomes(cluster: Cluster, node: str) -> tuple[str, str]:
    found = await results(cluster, node)
    return found["plugin-check"]["outcome"], found["extender-check"]["outcome"]


async def check_pods(cluster: Cluster) -> list[dict]:
    return json.loads(await cluster.api.get("/api/v1/namespaces/accelkit/pods", query={"labelSelector": SELECTOR}))[
        "items"
    ]


async def check(cluster: Cluster, **settings: object) -> str:
    """Run the checks alone, and anew unless it is said otherwise; return what is printed, warnings too."""
    given = json.dumps({"stages_max_age": 0, **settings})
    done = await asyncio.to_thread(cluster.sandbox.playbook, "site.yml", *CHECKS, "-e", given)
    return done.stdout + done.stderr


async def test_nodes_pass_stage_checks_after_installation(installed):
    async with ApiClient(load_connection(installed.kubeconfig)) as api:
        cluster = Cluster(api, installed)
        for node in ("node-1", "node-2"):
            assert await outcomes(cluster, node) == PASS, await results(cluster, node)


@pytest.mark.extended
async def test_cards_of_two_vendors_pass_and_verify_changes_nothing(cluster):
    for node in ("node-1", "node-2", "node-3"):
        assert await outcomes(cluster, node) == PASS, await results(cluster, node)
    evidence = (await results(cluster, "node-3"))["plugin-check"]["evidence"]
    assert evidence.startswith("1 GiB of "), evidence
    assert "S60" in evidence
    assert await check_pods(cluster) == []
    assert changed((await asyncio.to_thread(cluster.sandbox.playbook, "playbooks/verify.yml")).stdout) == 0


@pytest.mark.extended
async def test_installer_role_is_sufficient_for_checks(cluster):
    role = load_yaml(REPOSITORY / "playbooks/files/installer.yml")
    config = await kubeconfig_of(cluster.sandbox, "stage-checker", role)
    await check(cluster, accelkit_kubeconfig=str(config))
    assert await outcomes(cluster, "node-1") == PASS


@pytest.mark.long
async def test_full_node_does_not_fail_check(cluster):
    await cluster.create_pod("full", cards=1, node="node-2")
    await cluster.running("full")
    await check(cluster)
    found = await results(cluster, "node-2")
    assert {each["reason"] for each in found.values()} == {"NoFreeShare"}
    assert await outcomes(cluster, "node-1") == PASS
    await cluster.delete_pods()
    await check(cluster)
    assert await outcomes(cluster, "node-2") == PASS


@pytest.mark.extended
async def test_node_without_plugin_fails_and_verify_reports_failure(cluster):
    await label(cluster, "node-1", "false")
    try:
        await offers(cluster, "node-1", nothing=True)
        assert "NothingAllocatable" in await check(cluster, stages_nodes=["node-1", "node-2"])
        assert (await results(cluster, "node-1"))["plugin-check"]["reason"] == "NothingAllocatable"
        assert await outcomes(cluster, "node-2") == PASS
    finally:
        await label(cluster, "node-1", "true")
    await offers(cluster, "node-1", nothing=False)
    # One that may not do the work again tells what is recorded.
    verify = partial(asyncio.to_thread, cluster.sandbox.playbook, "playbooks/verify.yml")
    done = await verify("--check", check=False)
    assert done.returncode != 0
    told = " ".join(done.stdout.split())
    assert "stage plugin-check: fail (NothingAllocatable) on node-1" in told
    assert "not checked again: this run uses check mode (--check)" in told
    assert changed((await verify()).stdout) == 1
    assert await outcomes(cluster, "node-1") == PASS
    assert changed((await verify()).stdout) == 0


@pytest.mark.long
async def test_verify_repeats_check_after_node_state_changed(cluster):
    node = await cluster.get("/api/v1/nodes/node-1")
    record = json.loads(node["metadata"]["annotations"]["accelkit.io/stages"])
    for result in record["results"].values():
        result["state"]["boot_id"] = "before"
    written = {"metadata": {"annotations": {"accelkit.io/stages": json.dumps(record)}}}
    await cluster.api.patch("/api/v1/nodes/node-1", written)
    reader = await kubeconfig_of(cluster.sandbox, "stage-reader", {"rules": [READING]})
    verify = partial(asyncio.to_thread, cluster.sandbox.playbook, "playbooks/verify.yml")
    told = " ".join((await verify("-e", f"accelkit_kubeconfig={reader}", check=False)).stdout.split())
    assert "stale (StateChanged) on node-1" in told
    assert "not checked again: the user may not patch nodes, create pods in accelkit" in told
    assert changed((await verify()).stdout) == 1
    assert await outcomes(cluster, "node-1") == PASS


@pytest.mark.long
async def test_removal_deletes_results_and_check_pods(cluster):
    await cluster.create_pod("stays", memory=1)
    await cluster.running("stays")
    await asyncio.to_thread(cluster.sandbox.playbook, "playbooks/remove.yml")
    for node in (await cluster.get("/api/v1/nodes"))["items"]:
        assert "accelkit.io/stages" not in node["metadata"].get("annotations", {})
    assert await check_pods(cluster) == []
    await cluster.api.delete(f"{PODS}/stays", {"gracePeriodSeconds": 0})
    # Tests come in any order, and another one begins with accelkit installed.
    await asyncio.to_thread(cluster.sandbox.playbook, "site.yml")
    assert await outcomes(cluster, "node-1") == PASS


async def label(cluster: Cluster, node: str, value: str) -> None:
    await cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"accelkit.io/share": value}}})


async def offers(cluster: Cluster, node: str, *, nothing: bool) -> None:
    """Wait until a kubelet offers memory, or none any more."""
    await until(
        lambda: cluster.get(f"/api/v1/nodes/{node}"),
        accept=lambda found: (found["status"]["allocatable"].get("accelkit.io/memory", "0") == "0") is nothing,
        seconds=120,
        every=0.2,
    )
