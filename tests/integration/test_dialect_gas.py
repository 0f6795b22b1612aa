"""Pods and nodes made for Intel's GPU Aware Scheduling, on the real kube-scheduler, with `gas-extender` for it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter

import pytest
from conftest import Sandbox
from extender_process import NODES, Process, client_of, world_of
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "gas-scheduler"
PREFIX = "gpu.intel.com/"
GB = 10**9
CARDS = "gas-container-cards"


class GasProcess(Process):
    """`accelkit gas-extender …` with flags as GAS had them."""

    def start(self) -> None:
        command = [sys.executable, "-m", "accelkit", "gas-extender", f"-port={self.port}", *self._arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox("nodes: [{name: node-1, cards: [{count: 2, memory: 16GiB}]}]") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def served(sandbox, tmp_path_factory):
    """The extender, and a kube-scheduler with the extender entry of GAS's own documents."""
    folder = tmp_path_factory.mktemp("gas")
    flags = ["--unsafe=true", "--enableAllowlist", "-v=4", f"--kubeConfig={sandbox.kubeconfig}"]
    process = GasProcess(folder, plain=False)
    process.url, process._arguments = f"http://127.0.0.1:{process.port}", flags
    entry = {
        "urlPrefix": process.url,
        "filterVerb": "scheduler/filter",
        "bindVerb": "scheduler/bind",
        "weight": 1,
        "enableHTTPS": False,
        "nodeCacheCapable": True,
        "managedResources": [{"name": f"{PREFIX}{each}", "ignoredByScheduler": False} for each in ("i915", "xe")],
    }
    config = build_configuration(NAME, sandbox.paths.build_kubeconfig_path("kube-scheduler"), entry)
    with process, run_scheduler(config, folder):
        yield process


class Cluster:
    """Nodes without an agent of ours, and pods for them."""

    def __init__(self, world, extender):
        self.world, self.extender = world, extender

    async def node(self, labels, **amounts):
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "30", **qualify(amounts)}
        node = await self.world.node(annotation="", allocatable=allocatable)
        await self.label(node, labels)
        await self.extender.shows(node, lambda view: view["cards"])
        return node

    async def label(self, node, labels):
        await self.world.api.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})

    async def pod(self, node, *containers, annotations=None, **body):
        spec = {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": f"c{number}", "image": "busybox", "resources": {"limits": qualify(amounts)}}
                for number, amounts in enumerate(containers)
            ],
        }
        return await self.world.pod(1, spec=spec, annotations=annotations or {}, **body)

    async def bound(self, pod):
        """Wait until a pod is bound; return its cards as GAS wrote them."""

        async def is_bound():
            found = await self.world.read(pod)
            return found if found["spec"].get("nodeName") else None

        return (await until(is_bound))["metadata"].get("annotations", {}).get(CARDS)


def qualify(amounts):
    return {f"{PREFIX}{name.replace('__', '.')}": str(amount) for name, amount in amounts.items()}


@contextlib.asynccontextmanager
async def cluster_of(sandbox, served):
    async with world_of(sandbox.kubeconfig) as world, client_of(served) as client:
        await until(client.wakes)
        yield Cluster(world, client)


@pytest.mark.parametrize("counts", ["i915", "xe"])
@pytest.mark.parametrize("name", ["memory__max", "memory", "anything"])
async def test_third_pod_of_5_gb_does_not_fit_two_cards_of_8_gb(sandbox, served, counts, name):
    async with cluster_of(sandbox, served) as cluster:
        node = await cluster.node({f"{PREFIX}cards": "card0.card1"}, **{counts: 8, name: 16 * GB})
        asked = {counts: 1, name: 5 * GB}
        pods = [await cluster.pod(node, asked) for _ in range(2)]
        assert sorted([await cluster.bound(pod) for pod in pods]) == ["card0", "card1"]
        third = await cluster.pod(node, asked)
        assert "1 Not enough GPU-resources for deployment: will not fit" in await cluster.world.unschedulable(third)
        # What the first one frees is one card's.
        await cluster.world.delete(pods[0])
        assert await cluster.bound(third) in {"card0", "card1"}


async def test_amounts_are_divided_over_the_cards_of_each_container(sandbox, served):
    async with cluster_of(sandbox, served) as cluster:
        labels = {f"{PREFIX}gpu-numbers": "0.1.2", f"{PREFIX}gpu-numbers2": "Z.10"}
        node = await cluster.node(labels, i915=8, millicores=4000, foo=40)
        two = {"i915": 2, "millicores": 2000, "foo": 15}
        # The second container has the two cards that are left.
        assert await cluster.bound(await cluster.pod(node, two, {"cpu": 0}, two)) == "card0,card1||card2,card10"
        await cluster.extender.shows(node, lambda view: all(card["shares"] for card in view["cards"]))
        # Each card has 3 of foo left, though the node has 12.
        assert await cluster.bound(await cluster.pod(node, {"i915": 1, "foo": 3})) == "card0"
        assert "will not fit" in await cluster.world.unschedulable(await cluster.pod(node, {"i915": 1, "foo": 4}))


async def test_labels_and_annotations_restrict_card_choice(sandbox, served):
    async with cluster_of(sandbox, served) as cluster:
        policy = "telemetry.aware.scheduling.policy"
        labels = {
            f"{PREFIX}gpu-numbers": "0.1.2.3",
            f"{PREFIX}pci-groups": "0.1_2.3",
            f"{policy}/gas-prefer-gpu": "card3",
        }
        node = await cluster.node(labels, i915=40)
        one = {"i915": 1}
        assert await cluster.bound(await cluster.pod(node, one)) == "card3"
        assert await cluster.bound(await cluster.pod(node, one, annotations={"gas-allow": "card1"})) == "card1"
        # Lists of denied cards were not asked for.
        assert await cluster.bound(await cluster.pod(node, one, annotations={"gas-deny": "card3"})) == "card3"
        same = await cluster.pod(node, one, one, one, annotations={"gas-same-gpu": "c0,c2"})
        first, _, last = (await cluster.bound(same)).split("|")
        assert first == last
        await cluster.label(node, {f"{policy}/gas-disable-card3": "PCI_GROUP"})
        await cluster.extender.shows(
            node,
            lambda view: sum(card["health"] != "healthy" or card.get("cordoned", False) for card in view["cards"]) == 2,
        )
        assert await cluster.bound(await cluster.pod(node, one)) == "card0"


async def test_pods_with_forged_annotations_are_counted_by_their_limits(sandbox, served):
    async with cluster_of(sandbox, served) as cluster:
        node = await cluster.node({f"{PREFIX}cards": "card0.card1"}, i915=8, foo=16)
        shares = '[{"card": "card1", "memory_bytes": 0, "amounts": [["gpu.intel.com/foo", 0]]}]'
        lies = {
            CARDS: "card0",
            "gas-ts": "1",
            "accelkit.io/assignment": f'{{"version": 1, "containers": {{"c0": {shares}}}}}',
        }
        pods = [await cluster.pod(node, {"i915": 1, "foo": 5}, annotations=lies) for _ in range(2)]
        found = Counter([await cluster.bound(pod) for pod in pods])
        assert found == {"card0": 1, "card1": 1}
        assert "will not fit" in await cluster.world.unschedulable(
            await cluster.pod(node, {"i915": 1, "foo": 5}, annotations=lies)
        )


async def test_pods_without_card_are_bound_without_card_annotation(sandbox, served):
    async with cluster_of(sandbox, served) as cluster:
        node = await cluster.node({f"{PREFIX}cards": "card0"}, i915=1, foo=4)
        pods = [await cluster.pod(node, {"foo": 2}) for _ in range(2)]
        assert [await cluster.bound(pod) for pod in pods] == [None, None]
        # They hold nothing of a card.
        await cluster.world.delete(pods[0])
        assert await cluster.bound(await cluster.pod(node, {"i915": 1, "foo": 2})) == "card0"
