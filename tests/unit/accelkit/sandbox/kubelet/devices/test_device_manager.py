"""The rules of the kubelet's device manager, one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from support.clocks import Clock

from accelkit.errors import DevicePluginError
from accelkit.sandbox.kubelet.devices.device_manager import DeviceAllocation, DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import (
    AllocateResponse,
    ContainerKind,
    DeviceRequest,
    PluginDevice,
    PluginOptions,
    is_extended_resource_name,
)

MEMORY = "accelkit.io/memory"
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


class Plugin:
    """Answers calls at once and writes them down."""

    def __init__(self, preference: Sequence[str] = (), fail: str = ""):
        self.preference = preference
        self.fail = fail
        self.preferred_calls = []
        self.allocate_calls = []
        self.pre_start_calls = []

    async def prefer(self, *, available, must_include, size):
        self.preferred_calls.append((list(available), list(must_include), size))
        if self.fail == "preferred":
            raise DevicePluginError("no preference")
        return self.preference

    async def allocate(self, device_ids):
        self.allocate_calls.append(list(device_ids))
        if self.fail == "allocate":
            raise DevicePluginError("no devices")
        return AllocateResponse(environment={"IDS": ",".join(device_ids)})

    async def pre_start(self, device_ids):
        self.pre_start_calls.append(list(device_ids))


class Node:
    """A device manager with one plugin."""

    def __init__(self, devices=16, *, seed=1, plugin=None, preferred=False, pre_start=False):
        self.clock = Clock(100.0)
        self.plugin = plugin or Plugin()
        self.manager = DeviceManager(clock=self.clock, grace_seconds=300.0, chance=random.Random(seed))  # noqa: S311 - the choice is to be repeatable
        self.options = PluginOptions(preferred=preferred, pre_start=pre_start)
        self.manager.connect_plugin(MEMORY, self.options, self.plugin)
        self.ids = [f"card-{number:02}" for number in range(devices)]
        self.list()

    def list(self, unhealthy=()):
        self.manager.update_devices(MEMORY, [PluginDevice(id=name, healthy=name not in unhealthy) for name in self.ids])

    async def start(self, pod, name, kind, number, resource=MEMORY):
        await self.manager.allocate(pod, DeviceRequest(name=name, kind=kind, limits={resource: number}))
        return self.of(pod, name)

    def of(self, pod, name):
        held = self.manager.find_allocations(pod, name)
        return set(held[MEMORY].device_ids) if MEMORY in held else set()

    def used(self):
        return {each for *_, held in self.manager.list_allocations() for each in held.device_ids}


async def test_container_receives_requested_number_of_healthy_devices():
    node = Node()
    node.list(unhealthy=node.ids[:12])
    assert await node.start("p", "main", APP, 4) == set(node.ids[12:])


async def test_allocate_response_is_stored_with_devices():
    node = Node(1)
    await node.start("p", "main", APP, 1)
    assert node.manager.find_allocations("p", "main")[MEMORY].response.environment == {"IDS": "card-00"}
    assert node.plugin.allocate_calls == [["card-00"]]


KINDS = {"init": INIT, "init2": INIT, "init3": INIT, "side": SIDECAR}
# On so many devices, containers of a pod that ask for so many; how many are held in the end, and by which of them.
REUSE = {
    "a larger one takes all and some more": (16, {"init": 4, "main": 8}, 8, lambda init, main: init < main),
    "two share": (8, {"init": 8, "a": 4, "b": 4}, 8, lambda init, a, b: a | b == init and not a & b),
    "the second finds the rest": (10, {"init": 6, "a": 4, "b": 4}, 8, lambda init, a, b: a < init and init - a < b),
    "plain init containers use the same": (
        8,
        {"init": 4, "init2": 8, "init3": 4, "main": 8},
        8,
        lambda init, init2, init3, main: init < init2 and init3 < init2 and main == init2,
    ),
    "a sidecar before an init container keeps its own": (
        8,
        {"side": 4, "init": 4, "main": 4},
        8,
        lambda side, init, main: not side & init and main == init,
    ),
    "a sidecar after an init container takes them": (
        8,
        {"init": 4, "side": 4, "main": 4},
        8,
        lambda init, side, main: side == init and not main & side,
    ),
}


@pytest.mark.parametrize(("devices", "containers", "used", "holds"), REUSE.values(), ids=REUSE)
async def test_app_containers_reuse_devices_of_init_containers(devices, containers, used, holds):
    node = Node(devices)
    held = {name: await node.start("p", name, KINDS.get(name, APP), count) for name, count in containers.items()}
    assert holds(**held)
    assert len(node.used()) == used


async def test_allocation_to_another_pod_ends_device_reuse():
    node = Node(12)
    init = await node.start("p", "init", INIT, 4)
    await node.start("q", "main", APP, 4)
    main = await node.start("p", "main", APP, 4)
    assert not main & init


async def test_device_choice_without_preference_is_random_and_seeded():
    choices = {frozenset(await Node(16, seed=seed).start("p", "main", APP, 4)) for seed in (1, 1, 2, 3)}
    assert len(choices) == 3


async def test_preferred_allocation_is_not_requested_without_plugin_option():
    node = Node()
    await node.start("p", "main", APP, 4)
    assert node.plugin.preferred_calls == []


async def test_preferred_allocation_request_lists_available_and_required_devices():
    node = Node(8, preferred=True)
    init = sorted(await node.start("p", "init", INIT, 2))
    node.plugin.preferred_calls.clear()
    await node.start("q", "other", APP, 2)
    node.plugin.preferred_calls.clear()
    await node.start("p", "again", INIT, 1)
    again = node.of("p", "again")
    node.plugin.preferred_calls.clear()
    await node.start("p", "main", APP, 3)
    others = node.of("q", "other")
    available, must_include, size = node.plugin.preferred_calls[0]
    assert must_include == sorted(again)
    assert available == sorted(set(node.ids) - set(init) - others | again)
    assert size == 3


async def test_preferred_devices_already_in_use_are_ignored():
    plugin = Plugin(["card-00"])
    node = Node(4, plugin=plugin, preferred=True)
    assert await node.start("p", "main", APP, 1) == {"card-00"}
    assert await node.start("q", "main", APP, 3) == {"card-01", "card-02", "card-03"}


@pytest.mark.parametrize("preference", ["05", "03 06", "05 06 07"], ids=["too few", "enough", "too many"])
async def test_preferred_devices_are_supplemented_or_truncated_to_request(preference):
    preferred = {f"card-{number}" for number in preference.split()}
    node = Node(8, plugin=Plugin(sorted(preferred)), preferred=True)
    chosen = await node.start("p", "main", APP, 2)
    assert len(chosen) == 2
    assert chosen <= preferred or chosen >= preferred
    assert node.plugin.preferred_calls == [(node.ids, [], 2)]


async def test_preferred_allocation_is_skipped_when_reusable_devices_suffice():
    node = Node(8, preferred=True)
    await node.start("p", "init", INIT, 4)
    node.plugin.preferred_calls.clear()
    await node.start("p", "main", APP, 4)
    assert node.plugin.preferred_calls == []


async def test_container_with_allocated_devices_keeps_them():
    node = Node()
    first = await node.start("p", "main", APP, 4)
    assert await node.start("p", "main", APP, 4) == first
    assert len(node.plugin.allocate_calls) == 1


async def test_changed_device_count_of_container_is_refused():
    node = Node()
    await node.start("p", "main", APP, 4)
    with pytest.raises(DevicePluginError, match=r'changed request for resource "accelkit\.io/memory" from 4 to 5'):
        await node.start("p", "main", APP, 5)


async def test_insufficient_free_devices_error_reports_counts():
    node = Node(8)
    await node.start("p", "main", APP, 6)
    with pytest.raises(DevicePluginError) as failure:
        await node.start("q", "main", APP, 4)
    assert str(failure.value) == (
        "requested number of devices unavailable for accelkit.io/memory. Requested: 4, Available: 2"
    )
    assert len(node.used()) == 6


async def test_insufficient_devices_error_excludes_reused_devices():
    node = Node(4)
    await node.start("p", "init", INIT, 3)
    with pytest.raises(DevicePluginError, match=r"Requested: 2, Available: 1"):
        await node.start("p", "main", APP, 5)


async def test_unregistered_resource_cannot_be_allocated():
    with pytest.raises(DevicePluginError, match=r"cannot allocate unregistered device example\.com/none"):
        await Node().start("p", "main", APP, 1, resource="example.com/none")


@pytest.mark.parametrize("name", ["cpu", "memory", "hugepages-2Mi", "kubernetes.io/batch", "ephemeral-storage"])
async def test_native_kubernetes_resources_are_ignored(name):
    assert await Node().start("p", "main", APP, 1, resource=name) == set()


async def test_zero_devices_of_unregistered_resource_are_accepted():
    assert await Node().start("p", "main", APP, 0, resource="example.com/none") == set()


async def test_zero_devices_do_not_call_plugin():
    node = Node()
    assert await node.start("p", "main", APP, 0) == set()
    assert node.plugin.allocate_calls == []


@pytest.mark.parametrize("step", ["preferred", "allocate"])
async def test_failed_plugin_call_leaves_no_allocation(step):
    node = Node(4, plugin=Plugin(fail=step), preferred=True)
    with pytest.raises(DevicePluginError):
        await node.start("p", "main", APP, 2)
    assert node.used() == frozenset()
    node.plugin.fail = ""
    assert len(await node.start("q", "main", APP, 4)) == 4


async def test_releasing_pod_preserves_devices_of_other_pod():
    node = Node(8)
    await node.start("p", "main", APP, 4)
    kept = await node.start("q", "main", APP, 4)
    node.manager.release("p")
    node.manager.release("p")
    assert (node.used(), node.manager.list_holders()) == (kept, {"q"})
    assert len(await node.start("r", "main", APP, 4)) == 4


async def test_restored_devices_are_marked_in_use():
    node = Node(4)
    node.manager.restore("p", "main", MEMORY, DeviceAllocation(frozenset(["card-00"]), AllocateResponse()))
    assert "card-00" not in await node.start("q", "main", APP, 3)


def test_unhealthy_devices_count_only_toward_capacity():
    node = Node(4)
    node.list(unhealthy=["card-01"])
    resources = node.manager.collect_resources()
    assert resources.capacity == {MEMORY: 4}
    assert resources.allocatable == {MEMORY: 3}


async def test_devices_of_disconnected_plugin_are_unhealthy_but_still_held():
    node = Node(4)
    held = await node.start("p", "main", APP, 2)
    node.manager.disconnect_plugin(MEMORY)
    resources = node.manager.collect_resources()
    assert (resources.capacity, resources.allocatable) == ({MEMORY: 4}, {MEMORY: 0})
    assert node.of("p", "main") == held
    with pytest.raises(DevicePluginError, match="no healthy devices present"):
        await node.start("q", "main", APP, 1)


async def test_container_start_fails_when_allocated_devices_become_unhealthy():
    node = Node(4)
    await node.start("p", "main", APP, 4)
    node.list(unhealthy=["card-01"])
    with pytest.raises(DevicePluginError, match="previously allocated devices are no longer healthy"):
        await node.start("p", "main", APP, 4)


def test_resource_is_removed_once_after_grace_period():
    node = Node(4)
    assert node.manager.find_next_expiry() is None
    node.manager.disconnect_plugin(MEMORY)
    assert node.manager.find_next_expiry() == 400.0
    node.clock.now = 399.0
    assert node.manager.collect_resources().removed == frozenset()
    node.clock.now = 400.0
    gone = node.manager.collect_resources()
    assert (gone.capacity, gone.allocatable, gone.removed) == ({}, {}, {MEMORY})
    again = node.manager.collect_resources()
    assert (again.capacity, again.removed) == ({}, frozenset())
    assert node.manager.find_next_expiry() is None


async def test_removed_resource_still_held_by_pod_cannot_be_allocated():
    node = Node(4)
    await node.start("p", "main", APP, 1)
    node.manager.disconnect_plugin(MEMORY)
    node.clock.now += 301
    node.manager.collect_resources()
    with pytest.raises(DevicePluginError, match="cannot allocate unregistered device"):
        await node.start("q", "main", APP, 1)


def test_plugin_disconnected_before_first_list_is_removed():
    node = Node(0)
    node.manager.connect_plugin("example.com/other", PluginOptions(), Plugin())
    node.manager.disconnect_plugin("example.com/other")
    assert node.manager.collect_resources().capacity == {MEMORY: 0, "example.com/other": 0}
    node.clock.now += 301
    assert node.manager.collect_resources().removed == {"example.com/other"}


def test_disconnecting_unknown_plugin_has_no_effect():
    node = Node(1)
    node.manager.disconnect_plugin("example.com/none")
    assert node.manager.collect_resources().capacity == {MEMORY: 1}


async def test_reregistered_plugin_replaces_old_plugin():
    node = Node(4)
    held = await node.start("p", "main", APP, 2)
    node.manager.disconnect_plugin(MEMORY)
    successor = Plugin()
    node.manager.connect_plugin(MEMORY, PluginOptions(), successor)
    assert node.manager.collect_resources().allocatable == {MEMORY: 0}
    node.list()
    node.clock.now += 1000
    assert node.manager.collect_resources().allocatable == {MEMORY: 4}
    assert await node.start("q", "main", APP, 2) == set(node.ids) - held
    assert len(successor.allocate_calls) == 1


async def test_a_stopped_endpoint_is_not_called():
    node = Node(4)
    node.manager.disconnect_plugin(MEMORY)
    node.list()
    with pytest.raises(DevicePluginError, match="has been stopped"):
        await node.start("p", "main", APP, 1)


async def test_pre_start_is_called_only_if_plugin_requires_it():
    plain, eager = Node(2), Node(2, pre_start=True)
    for node in (plain, eager):
        await node.start("p", "main", APP, 2)
        await node.manager.pre_start("p", "main")
    assert plain.plugin.pre_start_calls == []
    assert eager.plugin.pre_start_calls == [["card-00", "card-01"]]


def test_healthy_devices_are_listed_with_numa_nodes():
    node = Node(0)
    node.manager.update_devices(
        MEMORY, [PluginDevice(id="b", numa=(1,)), PluginDevice(id="a"), PluginDevice(id="c", healthy=False)]
    )
    assert [device.id for device in node.manager.list_healthy_devices()[MEMORY]] == ["a", "b"]
    listed = node.manager.find_device(MEMORY, "b")
    assert listed is not None
    assert listed.numa == (1,)
    assert node.manager.find_device(MEMORY, "x") is None


@pytest.mark.parametrize(
    ("names", "extended"),
    [
        (("accelkit.io/memory", "nvidia.com/gpu", "a/b", "enflame.com/x"), True),
        (("cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.a.b/c", "A.b/c"), False),
        (("a/", "/a", "a/b/c", "a/-", "a" * 250 + "/b"), False),
    ],
    ids=["extended", "of Kubernetes or in capitals", "not names"],
)
def test_extended_resource_names_are_recognized(names, extended):
    assert {name: is_extended_resource_name(name) for name in names} == dict.fromkeys(names, extended)
