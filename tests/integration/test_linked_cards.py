"""Cards that are connected best, and KubeGPU's groups: through the real kube-scheduler and the real extender."""

from __future__ import annotations

import json

import pytest
from extender_process import GIB, Client, Process, World, client_of, world_of
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.model.card import Card, Link
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "topology-scheduler"
CARDS, GPU = "accelkit.io/cards", "nvidia.com/gpu"
# So much that the pods of a test make no difference to kube-scheduler's own scores.
AMPLE = {"cpu": "1000", "memory": "8Ti", "pods": "1000", CARDS: "8", GPU: "8"}

QUADS = [["NVLink" if a // 4 == b // 4 else "C" for b in range(8)] for a in range(8)]
SWITCHED = [["NVSwitch"] * 8 for _ in range(8)]
APART = [["C"] * 8 for _ in range(8)]
PAIRS = [["S" if a // 2 == b // 2 else "H" if a // 4 == b // 4 else "C" for b in range(8)] for a in range(8)]
LETTERS = {"NVLink": "D", "NVSwitch": "W"}


def machine(connections: list[list[str]], memory: int = 80) -> str:
    """The inventory of a node whose cards a, b, c… are connected so."""
    cards = tuple(
        Card(
            "abcdefgh"[a],
            "nvidia",
            "sim",
            memory * GIB,
            links=tuple(Link("abcdefgh"[b], kind) for b, kind in enumerate(row) if a != b and kind in LETTERS),
        )
        for a, row in enumerate(connections)
    )
    rows = (
        "".join("X" if a == b else LETTERS.get(kind, kind) for b, kind in enumerate(row))
        for a, row in enumerate(connections)
    )
    return encode_inventory(Inventory(GIB, cards, topology=tuple(rows)))


@pytest.fixture(scope="module")
def extender(control_plane, tmp_path_factory):
    dialects = ["--dialect", "kubegpu", "--dialect", "native"]
    options = ["--kubeconfig", str(control_plane.kubeconfig), "--policy", "topology", *dialects]
    with Process(tmp_path_factory.mktemp("logs"), *options) as process:
        yield process


@pytest.fixture(scope="module")
def scheduler(control_plane, extender, tmp_path_factory):
    """A kube-scheduler with the extender, for the pods that name it; its log."""
    entry = {
        "urlPrefix": extender.url,
        **{f"{verb}Verb": verb for verb in ("filter", "prioritize", "bind")},
        "weight": 1,
        "nodeCacheCapable": True,
        "managedResources": [{"name": name, "ignoredByScheduler": False} for name in (CARDS, GPU)],
    }
    config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
    with run_scheduler(config, tmp_path_factory.mktemp("scheduler")) as log:
        yield log


class Machines:
    """Nodes of one test, and pods that go to one of them."""

    def __init__(self, world: World, client: Client, log) -> None:
        self.world, self.client, self.log = world, client, log
        self.nodes = []

    async def add(self, connections, memory=80):
        node = await self.world.node(annotation=machine(connections, memory), allocatable=AMPLE)
        await self.client.shows(node, lambda view: view["state"] == "shared")
        self.nodes.append(node)
        return node

    async def ask(self, cards, *, resource=CARDS, **annotations):
        """Create a pod with whole cards that goes to one of the nodes."""
        among = {"key": "accelkit-test", "operator": "In", "values": self.nodes}
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [among]}]}
        }
        containers = [{"name": "main", "image": "busybox", "resources": {"limits": {resource: str(cards)}}}]
        spec = {
            "schedulerName": NAME,
            "affinity": {"nodeAffinity": required},
            "tolerations": [{"operator": "Exists"}],
            "containers": containers,
        }
        return await self.world.pod(spec=spec, annotations=annotations)

    async def hold(self, node, card):
        """Put a pod on a node that holds this card whole; return when the extender knows it."""
        shares = [{"card": card, "memory_bytes": 80 * GIB, "compute": 1000, "whole": True}]
        assignment = {ASSIGNMENT_ANNOTATION: json.dumps({"version": 1, "containers": {"main": shares}})}
        await self.world.pod(cards=1, node_name=node, annotations=assignment)
        await self.client.shows(node, lambda view: any(each["id"] == card and each["whole"] for each in view["cards"]))

    async def place(self, cards, **more):
        """Create a pod and wait until it is bound; return its node and its cards."""
        pod = await self.ask(cards, **more)

        async def bound():
            found = await self.world.read(pod)
            return found if found["spec"].get("nodeName") else None

        try:
            found = await until(bound)
        except AssertionError as exc:
            raise AssertionError(self.log.read_text()[-4000:]) from exc
        shares = json.loads(found["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])["containers"]["main"]
        return found["spec"]["nodeName"], "".join(sorted(share["card"] for share in shares))

    async def refused(self, cards, **more):
        """Create a pod and return why kube-scheduler finds no node for it."""
        return await self.world.unschedulable(await self.ask(cards, **more))


@pytest.fixture
async def machines(control_plane, extender, scheduler):
    async with world_of(control_plane.kubeconfig) as world, client_of(extender) as client:
        yield Machines(world, client, scheduler)


async def test_pods_get_linked_cards_and_log_states_links(machines):
    node = await machines.add(QUADS)
    assert await machines.place(1) == (node, "a")
    assert await machines.place(4) == (node, "efgh")
    assert await machines.place(2) == (node, "bc")
    sets = {each["cards"][0]: each["links"] for each in (await machines.client.node(node))["sets"]}
    assert sets == {"e": {"NVLink": 6}, "b": {"NVLink": 1}}
    told = [line for line in machines.client.process.log.read_text().splitlines() if f"node={node}" in line]
    assert ['links={"main":{"NVLink":6}}' in line for line in told if " bound " in line] == [False, True, False]


async def test_group_sized_pod_keeps_larger_link_groups_intact(machines):
    switched, quads, begun = await machines.add(SWITCHED), await machines.add(QUADS), await machines.add(SWITCHED)
    for card in "abcd":
        await machines.hold(begun, card)
    assert await machines.place(4) == (begun, "efgh")
    assert await machines.place(4) == (quads, "abcd")
    assert await machines.place(4) == (quads, "efgh")
    assert await machines.place(4) == (switched, "abcd")


async def test_linked_cards_on_another_node_are_preferred(machines):
    apart, linked = await machines.add(APART), await machines.add(QUADS)
    await machines.hold(linked, "b")
    assert await machines.place(4) == (linked, "efgh")
    # A preference, and no condition.
    assert await machines.place(4) == (apart, "abcd")


def groups(**requests):
    """KubeGPU's annotation, with cards by such names and the least GiB of each."""
    amounts = {}
    for name, memory in requests.items():
        path = f"resource/group/{name.replace('_', '/')}"
        amounts |= {f"{path}/cards": 1, f"{path}/memory": memory * GIB}
    return {"KubeDevice/DeviceInfo": json.dumps({"runningcontainer": {"main": {"requests": amounts}}})}


async def test_kubegpu_pod_gets_cards_of_one_group(machines):
    apart, pairs = await machines.add(APART), await machines.add(PAIRS)
    for card in "ace":
        await machines.hold(pairs, card)
    pair = groups(gpugrp0_A_gpu_0=40, gpugrp0_A_gpu_1=40)
    # The other node has eight free cards, and no two below one switch.
    assert await machines.place(2, resource=GPU, **pair) == (pairs, "gh")
    assert "no cards that meet the constraints of container main" in await machines.refused(2, resource=GPU, **pair)
    socket = groups(gpugrp1_A_gpu_0=0, gpugrp1_A_gpu_1=0)
    assert await machines.place(2, resource=GPU, **socket) == (pairs, "bd")
    assert await machines.place(2, resource=GPU) == (apart, "ab")


async def test_impossible_kubegpu_request_is_reported_in_event(machines):
    await machines.add(PAIRS)
    three = groups(**{f"gpugrp0_A_gpu_{card}": 0 for card in range(3)})
    assert "no cards that meet the constraints of container main" in await machines.refused(3, resource=GPU, **three)
    assert "requests 3 cards for container main, whose limit nvidia.com/gpu is 2" in await machines.refused(
        2, resource=GPU, **three
    )


async def test_whole_cards_have_requested_minimum_memory(machines):
    await machines.add(QUADS, memory=40)
    large = await machines.add(APART, memory=80)
    wanted = {"accelkit.io/request": json.dumps({"main": {"min_memory": "64Gi"}})}
    assert await machines.place(2, **wanted) == (large, "ab")
    wanted = {"accelkit.io/request": json.dumps({"main": {"min_memory": "96Gi"}})}
    assert "2 fewer than 2 cards of 96 GiB" in await machines.refused(2, **wanted)
