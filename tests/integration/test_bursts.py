"""Many pods at once: what is written on them, what their kubelets gave, and what the cards have, read from the API."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

GIB = 2**30
MEMORY = "accelkit.io/memory"
PODS = 150
# After its last event a node's assignments are right within this time.
HEAL_SECONDS = 60.0
DEADLINE = 120.0


def read_capacities(nodes: list[dict]) -> dict[str, int]:
    """What each card has, by the inventories of the nodes."""
    texts = [node["metadata"].get("annotations", {}).get("accelkit.io/inventory", '{"cards": []}') for node in nodes]
    return {card["id"]: card["memory_bytes"] for text in texts for card in json.loads(text)["cards"]}


def read_written(pod: dict) -> dict[str, int]:
    """What a pod's assignment says, by card."""
    containers = json.loads(pod["metadata"]["annotations"]["accelkit.io/assignment"])["containers"]
    # Under "(moving)" stands what another pod is about to get.
    return {
        share["card"]: share["memory_bytes"] for name in containers.keys() - {"(moving)"} for share in containers[name]
    }


def read_given(pod: dict) -> dict[str, int]:
    """What a pod's kubelet gave its container, by card."""
    given = json.loads(pod["metadata"]["annotations"]["sandbox.accelkit.io/containers"])["main"]
    return {given["environment"]["ACCELKIT_VISIBLE_DEVICES"]: len(given["device_ids"][MEMORY]) * GIB}


def find_faults(pods: list[dict], capacities: dict[str, int]) -> list[str]:
    """What is wrong, as sentences."""
    written, given, devices = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    faults = []
    for pod in pods:
        name, was, now = pod["metadata"]["name"], read_written(pod), read_given(pod)
        written.update(was)
        given.update(now)
        ids = json.loads(pod["metadata"]["annotations"]["sandbox.accelkit.io/containers"])["main"]["device_ids"]
        devices.update((pod["spec"]["nodeName"], device) for device in ids[MEMORY])
        if was != now:
            faults.append(f"{name} is assigned {was}, its kubelet gave {now}")
    for who, sums in (("assignments", written), ("kubelets", given)):
        faults += [f"{who} give {sums[card]} of {card}" for card in sums if sums[card] > capacities[card]]
    return [*faults, *(f"{device} is given {count} times" for device, count in devices.items() if count > 1)]


async def list_pods(cluster) -> list[dict]:
    return (await cluster.get("/api/v1/namespaces/default/pods"))["items"]


async def wait_until_all_run(cluster) -> list[dict]:
    def all_run(pods):
        phases = Counter(pod["status"]["phase"] for pod in pods)
        assert not phases["Failed"], phases
        return phases["Running"] == PODS

    return await until(lambda: list_pods(cluster), accept=all_run, seconds=DEADLINE, every=0.2)


@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.extended) for number in (1, 2))])
async def test_burst_of_pods_gets_correct_assignments(cluster, number):
    capacities = read_capacities((await cluster.get("/api/v1/nodes"))["items"])
    names = [f"burst-{number}-{each}" for each in range(PODS)]
    await asyncio.gather(*(cluster.create_pod(name, memory=1, node=None) for name in names))
    await wait_until_all_run(cluster)

    async def find():
        return find_faults(await list_pods(cluster), capacities)

    await until(find, accept=lambda faults: not faults, seconds=HEAL_SECONDS, every=0.5)
    audit = cluster.sandbox.command("audit", "--namespace", "accelkit", check=False)
    assert audit.returncode == 0, audit.stdout + audit.stderr
