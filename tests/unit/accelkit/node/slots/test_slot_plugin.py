"""Slots of cards, from what pods were assigned to what their kubelet is answered."""

import pytest
from device_names import unit, units
from support.grpc_calls import Context, RefusedError
from support.kubelets import PluginPods, PodResources, build_allocation, build_preference

from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin import plugin as plugin_module
from accelkit.node.discovery import FoundCard
from accelkit.node.slots import plugin as module
from accelkit.node.slots.plugin import make_slot_plugins
from accelkit.vendors.profiles import load_profiles

I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"


def card(name, number, vendor="intel", driver="i915", **of_card):
    profile = load_profiles()["intel" if vendor == "intel" else "simulated"]
    found = Card(name, vendor, "m", 16 * 2**30, minor=number, **of_card)
    return FoundCard(found, number, number, profile, render=128 + number, driver=driver)


def pod(name, resource=I915, *, created="", admitted=False, **cards):
    containers = {
        each: tuple(Share(held, 2**30, amounts=((resource, 1),)) for held in names) for each, names in cards.items()
    }
    return AssignedPod(
        f"uid-{name}", "d", name, (created, name), tuple(containers), Assignment(containers), admitted=admitted
    )


class Kubelet(PodResources):
    """Both plugins, and what containers hold."""

    def __init__(self, tmp_path, monkeypatch):
        super().__init__()
        self.pods, self.counted = PluginPods(), []
        self.i915, self.xe = make_slot_plugins(
            tmp_path,
            self.pods,
            per_card=3,
            on_allocate=lambda: None,
            build_counter=lambda resource: lambda result: self.counted.append((resource, result)),
        )
        for each in (module, plugin_module):
            monkeypatch.setattr(each, "list_pod_resources", self.list)

    async def devices(self, plugin):
        answer = await anext(plugin.ListAndWatch(api.Empty(), Context()))
        return {each.ID: each.health for each in answer.devices}

    async def prefer(self, size):
        request = build_preference(sorted(await self.devices(self.i915)), size)
        return list((await self.i915.GetPreferredAllocation(request, Context())).container_responses[0].deviceIDs)

    async def allocate(self, *device_ids):
        return (await self.i915.Allocate(build_allocation(device_ids), Context())).container_responses[0]


@pytest.fixture
async def kubelet(tmp_path, monkeypatch):
    kubelet = Kubelet(tmp_path, monkeypatch)
    for plugin in (kubelet.i915, kubelet.xe):
        await plugin.advertise([card("a", 0), card("b", 1), card("n", 2, "nvidia"), card("x", 3, driver="xe")], 2**30)
    return kubelet


def test_no_slots_are_served_if_disabled(tmp_path):
    told = {"on_allocate": lambda: None, "build_counter": lambda _: lambda _: None}
    assert make_slot_plugins(tmp_path, PluginPods(), per_card=0, **told) == []


async def test_each_card_has_slots_of_resource_of_its_driver(kubelet):
    assert sorted(await kubelet.devices(kubelet.i915)) == sorted(unit(name, n) for name in "ab" for n in range(3))
    assert sorted(await kubelet.devices(kubelet.xe)) == units("x", 0, 3)
    assert (kubelet.i915.endpoint, kubelet.xe.endpoint) == ("accelkit-i915.sock", "accelkit-xe.sock")
    # Assignments are believed by the whole node.
    assert [each.memory_bytes for each in kubelet.pods.learned.cards.values()] == [16 * 2**30] * 4


async def test_slots_of_assigned_cards_are_offered(kubelet):
    kubelet.pods.listed = [
        pod("late", created="2", c=["a"]),
        pod("early", created="1", c=["b"]),
        pod("two", c=["a", "b"]),
    ]
    assert await kubelet.prefer(1) == [unit("b", 0)]
    assert sorted(await kubelet.prefer(2)) == sorted([unit("a", 0), unit("b", 0)])
    kubelet.hold("early", [unit("b", 0)], I915)
    assert await kubelet.prefer(1) == [unit("a", 0)]


async def test_pods_of_other_resource_are_ignored(kubelet):
    kubelet.pods.listed = [pod("p", XE, c=["b"])]
    assert await kubelet.prefer(1) == [unit("a", 0)]
    assert kubelet.pods.refreshed == 1


async def test_container_response_has_device_nodes_and_no_memory_variable(kubelet):
    kubelet.pods.listed = [pod("p", c=["a", "b"])]
    answer = await kubelet.allocate(unit("a", 0), unit("b", 2))
    assert [each.host_path for each in answer.devices] == [
        "/dev/dri/card0",
        "/dev/dri/renderD128",
        "/dev/dri/card1",
        "/dev/dri/renderD129",
    ]
    assert dict(answer.envs) == {"ZE_AFFINITY_MASK": "0,1"}
    assert kubelet.counted == [(I915, "granted")]


async def test_slots_of_several_cards_are_refused_for_container_of_one_card(kubelet):
    kubelet.pods.listed = [pod("p", c=["a"])]
    with pytest.raises(RefusedError, match="devices of several cards"):
        await kubelet.allocate(unit("a", 0), unit("b", 0))
    assert kubelet.counted == [(I915, "refused")]


async def test_free_slots_of_unhealthy_card_are_withdrawn(kubelet):
    kubelet.hold("p", [unit("a", 1)], I915)
    ill = card("a", 0, health=Health.UNHEALTHY)
    await kubelet.i915.advertise([ill], 2**30)
    shown = await kubelet.devices(kubelet.i915)
    assert shown == {unit("a", 0): "Unhealthy", unit("a", 1): "Healthy", unit("a", 2): "Unhealthy"}
    # A kubelet that does not answer has taken nothing back, and gave nothing of what was not offered.
    kubelet.reachable = False
    await kubelet.i915.advertise([ill], 2**30)
    assert await kubelet.devices(kubelet.i915) == shown
