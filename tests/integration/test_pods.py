"""Pods through the real kube-scheduler, the real extender, a kubelet's protocols and the real device plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_objects import kubeconfig_of_account
from ports import free_port
from support.waiting import until

from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.node.devices import DeviceIds
from accelkit.sandbox.layout import write_atomically

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

# A node without a kubelet is never ready, and tainted so.
ANY_TAINT = [{"operator": "Exists"}]
MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


# Those of every node here.
IDS = DeviceIds(f"sim-node-{node}-{card}" for node in range(10) for card in range(8))


def cards_of(given: dict) -> set[str]:
    """The cards that a container's device IDs name."""
    return {IDS.find_card(device) for ids in given["device_ids"].values() for device in ids}


async def test_gcushare_example_is_placed_and_fourth_pod_is_refused(cluster):
    for units in (4, 8, 12, 20):
        await cluster.create_pod(f"share-{units}", memory=units)
        if units != 20:
            await cluster.running(f"share-{units}")
    four, eight, twelve = [(await cluster.running(f"share-{u}"))["main"] for u in (4, 8, 12)]
    assert cards_of(four) == cards_of(eight) == {"sim-node-1-0"}
    assert cards_of(twelve) == {"sim-node-1-1"}
    assert "1 insufficient accelkit.io/memory in one card" in await cluster.refused("share-20")
    assert four["environment"]["ACCELKIT_VISIBLE_DEVICES"] == "sim-node-1-0"
    assert four["environment"]["ACCELKIT_MEMORY_BYTES"] == str(4 * 2**30)
    assert four["devices"] == ["/dev/accelkit0"]


async def test_whole_cards_are_allocated_beside_shared_card(cluster):
    await cluster.create_pod("share", memory=4)
    await cluster.running("share")
    await cluster.create_pod("whole", cards=7)
    whole = (await cluster.running("whole"))["main"]
    assert cards_of(whole) == {f"sim-node-1-{card}" for card in range(1, 8)}
    await cluster.create_pod("more", cards=1)
    assert "1 insufficient free accelkit.io/cards" in await cluster.refused("more")


async def test_two_containers_get_separate_shares(cluster):
    annotation = {"accelkit.io/request": json.dumps({"worker": {"split": 2}})}
    containers = {"server": {MEMORY: 16}, "worker": {MEMORY: 8}}
    await cluster.create_pod("two", containers=containers, annotations=annotation)
    given = await cluster.running("two")
    assert len(cards_of(given["server"])) == 1
    assert len(cards_of(given["worker"])) == 2
    assert not cards_of(given["server"]) & cards_of(given["worker"])


@pytest.mark.parametrize(("init", "app", "charged"), [(8, 4, 8), (4, 8, 8)])
async def test_app_container_reuses_devices_of_init_container(cluster, init, app, charged):
    await cluster.create_pod("neighbour", memory=8)
    await cluster.running("neighbour")
    await cluster.create_pod("reuse", init={"prepare": {MEMORY: init}}, containers={"main": {MEMORY: app}})
    given = await cluster.running("reuse")
    assert cards_of(given["prepare"]) == cards_of(given["main"])
    used = {card["id"]: card["used_bytes"] for card in cluster.sandbox.inspect("node-1")["nodes"][0]["cards"]}
    # Binpack puts them beside the neighbour of 8.
    assert used["sim-node-1-0"] == (8 + charged) * 2**30
    assert sum(used.values()) == (8 + charged) * 2**30


async def test_sidecar_keeps_its_devices(cluster):
    sidecar = {"side": {MEMORY: 4, "restartPolicy": "Always"}, "prepare": {MEMORY: 8}}
    await cluster.create_pod("sidecar", init=sidecar, containers={"main": {MEMORY: 4}})
    given = await cluster.running("sidecar")
    ids = {name: set(entry["device_ids"][MEMORY]) for name, entry in given.items()}
    assert not ids["side"] & (ids["prepare"] | ids["main"])
    assert ids["main"] < ids["prepare"]
    assert cluster.sandbox.inspect()["totals"]["used_bytes"] == 12 * 2**30


async def test_completed_pod_frees_its_share(cluster):
    await cluster.create_pod("job", cards=8, restartPolicy="Never")
    await cluster.running("job")
    await cluster.create_pod("next", cards=8)
    # Whole cards are counted by the scheduler itself too.
    assert "1 Insufficient accelkit.io/cards" in await cluster.refused("next")
    patch = {"metadata": {"annotations": {"sandbox.accelkit.io/exit": "0"}}}
    await cluster.api.patch("/api/v1/namespaces/default/pods/job", patch)
    await cluster.running("next")


async def test_forced_deletion_frees_share_immediately(cluster):
    await cluster.create_pod("first", cards=8)
    await cluster.running("first")
    await cluster.create_pod("second", cards=8)
    await cluster.refused("second")
    await cluster.api.delete("/api/v1/namespaces/default/pods/first", {"gracePeriodSeconds": 0})
    await cluster.running("second")


async def test_request_that_cannot_be_split_is_refused_with_reason(cluster):
    annotation = {"accelkit.io/request": json.dumps({"main": {"split": 3}})}
    await cluster.create_pod("odd", memory=8, annotations=annotation)
    assert "8 units cannot be split evenly over 3 cards" in await cluster.refused("odd")


async def test_node_with_different_cards_places_pods_by_card_memory(cluster):
    for name in ("a", "b", "c"):
        await cluster.create_pod(name, memory=24, node="node-2")
    outcomes = [await cluster.until(name, settled) for name in ("a", "b", "c")]
    # Two of the node's four cards have 32 GiB, the others 16.
    assert sorted(pod["status"]["phase"] for pod in outcomes) == ["Pending", "Running", "Running"]


async def test_concurrent_equal_pods_never_exceed_card_capacity(cluster):
    for number in range(12):
        await cluster.create_pod(f"p{number}", memory=6, node="node-2")
    outcomes = [await cluster.until(f"p{number}", settled) for number in range(12)]
    # 16 GiB take two of 6, 32 GiB take five: 2 + 2 + 5 + 5.
    assert all(pod["status"]["phase"] == "Running" for pod in outcomes)
    view = cluster.sandbox.inspect("node-2")["nodes"][0]
    assert all(card["used_bytes"] <= card["capacity_bytes"] for card in view["cards"])
    assert view["totals"]["used_bytes"] == 72 * 2**30
    assert cluster.sandbox.inspect("--from-api")["totals"] == cluster.sandbox.inspect()["totals"]


def settled(pod: dict) -> bool:
    reasons = [condition.get("reason") for condition in pod["status"].get("conditions", ())]
    return pod["status"]["phase"] != "Pending" or "Unschedulable" in reasons


async def test_gcushare_pod_gets_gcushare_messages(cluster, installed):
    """An extender that reads GCUShare's resource names, asked by the real scheduler in GCUShare's place."""
    node = {"metadata": {"name": "gcu-node", "labels": {"kubernetes.io/hostname": "gcu-node"}}}
    inventory = Inventory(2**30, tuple(Card(f"gcu-{n}", "enflame", "T10", 16 * 2**30) for n in range(8)))
    node["metadata"]["annotations"] = {INVENTORY_ANNOTATION: encode_inventory(inventory)}
    await cluster.api.post("/api/v1/nodes", node)
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "enflame.com/gcu-memory": "128"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": None}
    status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
    await cluster.api.patch("/api/v1/nodes/gcu-node/status", status)
    config = Path(installed.facts.scheduler_config)
    kept = config.read_text()
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--plain-http", "--dialect", "gcushare"]
    environ = {**installed.environ, "KUBECONFIG": str(await kubeconfig_of_account(installed, "accelkit-extender"))}
    extender = subprocess.Popen([sys.executable, "-m", "accelkit", "extender", *options], env=environ)
    try:
        text = kept.replace(f":{installed.port}", f":{port}/gcushare-scheduler").replace(
            MEMORY, "enflame.com/gcu-memory"
        )
        write_atomically(config, text.encode(), config.stat().st_mode)
        await cluster.scheduler_runs(text)
        for units in (4, 8, 20):
            limits = {"main": {"enflame.com/gcu-memory": units}}
            await cluster.create_pod(f"gcushare-pod-{units}", node="gcu-node", containers=limits, tolerations=ANY_TAINT)
        assert "1 insufficient GCU Memory in one gcu device" in await cluster.refused("gcushare-pod-20")
        pods = [await cluster.until(f"gcushare-pod-{u}", lambda pod: pod["spec"].get("nodeName")) for u in (4, 8)]
        assigned = [json.loads(pod["metadata"]["annotations"]["accelkit.io/assignment"]) for pod in pods]
        assert {entry["containers"]["main"][0]["card"] for entry in assigned} == {"gcu-0"}
    finally:
        write_atomically(config, kept.encode(), config.stat().st_mode)
        extender.kill()
        extender.wait()
        await cluster.api.delete("/api/v1/nodes/gcu-node")
        await cluster.scheduler_runs(kept)


async def test_pod_bound_without_scheduler_cannot_use_cards_of_other_pods(cluster):
    await cluster.create_pod("share", memory=8)
    await cluster.running("share")
    await cluster.create_bound_pod("whole", "node-1", cards=7)
    assert cards_of((await cluster.running("whole"))["main"]) == {f"sim-node-1-{card}" for card in range(1, 8)}
    await cluster.create_bound_pod("one-more", "node-1", cards=1)
    failed = await cluster.until("one-more", lambda pod: pod["status"]["phase"] == "Failed")
    assert failed["status"]["reason"] == "UnexpectedAdmissionError"
    assert "card sim-node-1-0 would be over capacity: default/share shares its memory" in failed["status"]["message"]
    # Its agent writes down what it got; until then it counts as a stray.
    await cluster.until("whole", lambda pod: "accelkit.io/assignment" in pod["metadata"]["annotations"])
    await until(lambda: not cluster.sandbox.inspect("node-1")["nodes"][0]["unassigned"], every=0.2)


async def test_cards_of_pod_bound_without_scheduler_are_freed_after_deletion(cluster):
    await cluster.create_bound_pod("whole-node", "node-1", cards=8)
    await cluster.running("whole-node")
    # Its agent has seen that it holds them, so that nothing of it is under way any more.
    await cluster.until("whole-node", lambda pod: "accelkit.io/assignment" in pod["metadata"]["annotations"])
    await cluster.delete_pods()
    await cluster.create_pod("after-it", memory=8)
    await cluster.running("after-it")


async def test_pod_deleted_directly_after_binding_keeps_no_card(cluster):
    # Its kubelet may ask for its devices when the API server has no such pod any more.
    for number in range(10):
        await cluster.create_bound_pod(f"brief-{number}", "node-1", cards=8)
        await cluster.delete_pods()
        await cluster.create_pod(f"next-{number}", memory=8)
        await cluster.running(f"next-{number}")
        await cluster.delete_pods()


async def test_node_agent_registers_again_after_a_crash(cluster, installed):
    agents = await cluster.get(
        "/api/v1/namespaces/accelkit/pods?labelSelector=app.kubernetes.io/name=accelkit-node-agent"
    )
    name = next(pod["metadata"]["name"] for pod in agents["items"] if pod["spec"]["nodeName"] == "node-1")
    await cluster.api.delete(f"/api/v1/namespaces/accelkit/pods/{name}", {"gracePeriodSeconds": 0})

    async def read_memory():
        return (await cluster.get("/api/v1/nodes/node-1"))["status"]["allocatable"][MEMORY]

    for amount in ("0", "128"):
        await until(read_memory, accept=amount.__eq__, every=0.02)
    await cluster.create_pod("after", memory=4)
    await cluster.running("after")
