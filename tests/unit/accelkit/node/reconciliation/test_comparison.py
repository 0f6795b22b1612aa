from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from device_names import unit
from fake_api.server import FakeApi
from support.pods import build_container, build_pod

from accelkit.kube.events import Events
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, decode_assignment, encode_assignment
from accelkit.model.card import Card
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation import comparison as module
from accelkit.node.reconciliation.comparison import compare_with_kubelet
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.vendors.dialects import load_dialect

NODE = NodeCards({name: Card(name, "v", "m", 16, minor=5) for name in "ab"}, 1)
NATIVE = load_dialect("native")


async def nothing(*_):
    """Look at nothing."""


class World:
    """A node whose watch shows nothing by itself; the kubelet and the API server are asked."""

    def __init__(self, folder):
        self.api = FakeApi()
        self.wake = asyncio.Event()
        self.answer = resources.ListPodResourcesResponse()
        self.pods = NodePods(self.api, "n", NATIVE, on_change=self.wake.set)
        self.pods.learn_cards(NODE)
        self.folder = folder

    def pod(self, name, assigned, held, *, admitted=True):
        text = encode_assignment(Assignment({"c": (Share(assigned, 1),)}))
        metadata = {"annotations": {ASSIGNMENT_ANNOTATION: text}}
        status = {"phase": "Running", **({"startTime": "2024-01-01T00:00:00Z"} if admitted else {})}
        container = build_container({"accelkit.io/memory": "1"})
        self.api.store(PODS, build_pod(name, container, metadata=metadata, status=status, nodeName="n"))
        if held:
            container = self.answer.pod_resources.add(namespace="d", name=name).containers.add(name="c")
            container.devices.add(resource_name="accelkit.io/memory", device_ids=[unit(held, name.encode()[0])])

    def card(self, name):
        text = self.api.objects[build_pod_path("d", name)]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
        return decode_assignment(text).containers["c"][0].card

    @property
    def lists(self):
        return sum(request.path == PODS for request in self.api.requests)

    async def run_until(self, reached):
        reconciler = Reconciler(
            self.api,
            pods=self.pods,
            cards=lambda: NODE,
            events=Events(self.api, "agent", "n"),
            metrics=Metrics(),
        )
        comparing = asyncio.create_task(
            compare_with_kubelet(
                self.folder,
                "n",
                dialect=NATIVE,
                pods=self.pods,
                checkpoint=SimpleNamespace(read=dict),
                reconciler=reconciler,
                monitor=SimpleNamespace(observe=nothing, strange_processes=()),
                enforcer=SimpleNamespace(enforce=nothing, enforced={}),
                advertising=SimpleNamespace(list_found_cards=tuple, list_node_cards=lambda: None),
                writer=None,
                plugins=(),
                wake=self.wake,
            )
        )
        try:
            async with asyncio.timeout(30):
                while not reached():
                    assert not comparing.done(), comparing.result()
                    await asyncio.sleep(0)
        finally:
            comparing.cancel()
            await asyncio.gather(comparing, return_exceptions=True)


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path)

    async def ask(_root):
        return world.answer

    monkeypatch.setattr(module, "list_pod_resources", ask)
    for name in ("_RECONCILE_SECONDS", "_UNSETTLED_SECONDS", "_GATHER_SECONDS", "_READ_SECONDS"):
        monkeypatch.setattr(module, name, 0.001)
    return world


@pytest.mark.parametrize("shown", ["nothing", "not admitted", "another pod"])
async def test_what_the_watch_has_not_shown_is_read_and_corrected(world, shown):
    if shown == "not admitted":
        world.pod("p", "a", None, admitted=False)
        await world.pods.refresh()
    elif shown == "another pod":
        world.pod("gone", "b", None)
        await world.pods.refresh()
        world.api.objects.clear()
    world.pod("p", "a", "b")
    world.pod("q", "b", "a")
    await world.run_until(lambda: (world.card("p"), world.card("q")) == ("b", "a"))
    assert {each.pod.ref.name for each in world.pods.list_pods()} == {"p", "q"}


async def test_pods_that_are_as_the_kubelet_shows_them_are_not_read_again(world, monkeypatch):
    world.pod("p", "a", "a")
    await world.pods.refresh()
    looks = 0

    async def ask(_root):
        nonlocal looks
        looks += 1
        return world.answer

    monkeypatch.setattr(module, "list_pod_resources", ask)
    await world.run_until(lambda: looks == 5)
    assert world.lists == 1


async def test_doubtful_pods_are_not_read_again_and_again(world, monkeypatch):
    monkeypatch.setattr(module, "_READ_SECONDS", 3600.0)
    world.pod("p", "a", None, admitted=False)
    looks = 0

    async def ask(_root):
        nonlocal looks
        looks += 1
        return world.answer

    monkeypatch.setattr(module, "list_pod_resources", ask)
    await world.pods.refresh()
    await world.run_until(lambda: looks == 5)
    assert world.lists == 2
