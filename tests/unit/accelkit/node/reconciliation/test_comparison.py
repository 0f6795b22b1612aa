import asyncio
from types import SimpleNamespace

import pytest
from device_names import unit
from support.pods import build_container
from support.reconciled_nodes import ReconciledNode

from accelkit.kube.paths import PODS
from accelkit.model.assignment import Share
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.reconciliation import comparison as module
from accelkit.node.reconciliation.comparison import compare_with_kubelet
from accelkit.vendors.dialects import load_dialect

NATIVE = load_dialect("native")


async def nothing(*_):
    """Observe nothing."""


class World(ReconciledNode):
    """A node whose watch delivers no events; the kubelet and the API server answer requests."""

    def __init__(self, folder):
        super().__init__()
        self.answer = resources.ListPodResourcesResponse()
        self.folder, self.looks = folder, 0

    def pod(self, name, assigned, held, *, admitted=True):
        container = build_container({"accelkit.io/memory": "1"})
        self.put(name, container, assigned={"c": (Share(assigned, 1),)}, admitted=admitted)
        if held:
            container = self.answer.pod_resources.add(namespace="d", name=name).containers.add(name="c")
            container.devices.add(resource_name="accelkit.io/memory", device_ids=[unit(held, name.encode()[0])])

    async def ask_kubelet(self, _root):
        self.looks += 1
        return self.answer

    @property
    def lists(self):
        return sum(request.path == PODS for request in self.api.requests)

    async def run_until(self, reached):
        comparing = asyncio.create_task(
            compare_with_kubelet(
                self.folder,
                "n",
                dialect=NATIVE,
                pods=self.pods,
                checkpoint=SimpleNamespace(read=dict),
                reconciler=self.reconciler,
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
    monkeypatch.setattr(module, "list_pod_resources", world.ask_kubelet)
    for name in ("_RECONCILE_SECONDS", "_UNSETTLED_SECONDS", "_GATHER_SECONDS", "_READ_SECONDS"):
        monkeypatch.setattr(module, name, 0.001)
    return world


@pytest.mark.parametrize("outdated", ["nothing", "not admitted", "another pod"])
async def test_pods_that_the_watch_has_not_delivered_are_listed_and_corrected(world, outdated):
    if outdated == "not admitted":
        world.pod("p", "a", None, admitted=False)
        await world.pods.refresh()
    elif outdated == "another pod":
        world.pod("gone", "b", None)
        await world.pods.refresh()
        world.api.objects.clear()
    world.pod("p", "a", "b")
    world.pod("q", "b", "a")
    await world.run_until(lambda: [world.find_cards(name)["c"] for name in "pq"] == [["b"], ["a"]])
    assert {each.pod.ref.name for each in world.pods.list_pods()} == {"p", "q"}


async def test_pods_that_match_the_kubelets_report_are_not_listed_again(world):
    world.pod("p", "a", "a")
    await world.pods.refresh()
    await world.run_until(lambda: world.looks == 5)
    assert world.lists == 1


async def test_outdated_pods_are_listed_at_most_once_per_interval(world, monkeypatch):
    monkeypatch.setattr(module, "_READ_SECONDS", 3600.0)
    world.pod("p", "a", None, admitted=False)
    await world.pods.refresh()
    await world.run_until(lambda: world.looks == 5)
    assert world.lists == 2
