"""A device plugin on its socket, called by a kubelet that uses the real protocol."""

import asyncio
import shutil
import socket

import pytest
from device_names import unit
from support.kubelets import PluginPods, serve_kubelet
from support.waiting import until

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.device_plugin.registration import keep_registered
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import KUBELET_SOCKET, MAX_MESSAGE_BYTES, list_held_devices, list_pod_resources
from accelkit.vendors.profiles import load_profiles

MEMORY, WHOLE = "accelkit.io/memory", "accelkit.io/cards"
CARDS = [FoundCard(Card(name, "v", "m", 4), 0, 0, load_profiles()["simulated"]) for name in ("a", "b")]


@pytest.fixture
async def kubelet():
    async with serve_kubelet() as kubelet:
        kubelet.answer.pod_resources.add(name="p", namespace="d")
        yield kubelet


def plugin_of(kubelet, *, whole=False, **options):
    names = (WHOLE, MEMORY) if whole else (MEMORY, WHOLE)
    return DevicePlugin(
        kubelet.root,
        resource=names[0],
        whole=whole,
        pods=PluginPods(),
        allocations=PreferredAllocation(whole=whole),
        other=(names[1], PreferredAllocation(whole=not whole)),
        **options,
    )


@pytest.mark.parametrize("steering", [True, False])
@pytest.mark.parametrize(("whole", "endpoint"), [(False, "accelkit-memory.sock"), (True, "accelkit-cards.sock")])
async def test_plugin_registers_its_resource_and_options(kubelet, whole, endpoint, steering):
    plugin = plugin_of(kubelet, whole=whole, steering=steering)
    await plugin.advertise(CARDS, 2)
    await plugin.start()
    (request,) = kubelet.registered
    assert (request.version, request.endpoint) == ("v1beta1", endpoint)
    assert request.resource_name == (WHOLE if whole else MEMORY)
    assert request.options.get_preferred_allocation_available is steering
    async with kubelet.dial(endpoint) as dialled:
        options = await dialled.GetDevicePluginOptions(api.Empty(), timeout=30)
        assert options.get_preferred_allocation_available is steering
        sent = await dialled.ListAndWatch(api.Empty(), timeout=30).read()
    assert len(sent.devices) == (2 if whole else 4)
    await plugin.stop()


async def test_unmanaged_resource_is_not_registered_until_managed(kubelet):
    managed, found_any = set(), asyncio.Event()
    plugins = [
        plugin_of(kubelet, whole=whole, is_managed=lambda name=name: name in managed)
        for whole, name in ((False, MEMORY), (True, WHOLE))
    ]
    found_any.set()
    for plugin in plugins:
        await plugin.advertise(CARDS, 2)
    keeping = asyncio.create_task(keep_registered(kubelet.root, plugins, found_any))
    try:
        # The second plugin is registered by the same loop, and the first one is not.
        managed.add(WHOLE)
        await plugins[1].advertise(CARDS, 2)
        await until(lambda: kubelet.registered)
        managed.add(MEMORY)
        await plugins[0].advertise(CARDS, 2)
        await until(lambda: len(kubelet.registered) == 2)
    finally:
        keeping.cancel()
        for plugin in plugins:
            await plugin.stop()
    assert [request.resource_name for request in kubelet.registered] == [WHOLE, MEMORY]


async def test_withdrawn_resource_keeps_held_devices_healthy_after_kubelet_restart(kubelet):
    managed, found_any = {MEMORY}, asyncio.Event()
    plugin = plugin_of(kubelet, is_managed=lambda: MEMORY in managed)
    found_any.set()
    await plugin.advertise(CARDS, 2)
    keeping = asyncio.create_task(keep_registered(kubelet.root, [plugin], found_any))
    try:
        await until(lambda: kubelet.registered)
        held = unit("a", 0)
        managed.clear()
        await plugin.advertise(CARDS, 2, {held})
        assert not plugin.offered
        listed = await kubelet.list_devices(plugin.endpoint)
        assert {name for name, health in listed.items() if health == "Healthy"} == {held}
        assert len(listed) == 4
        # A kubelet that starts removes all sockets in its folder and creates its own again.
        plugin.socket.unlink()
        await until(lambda: len(kubelet.registered) == 2)
        assert (await kubelet.list_devices(plugin.endpoint))[held] == "Healthy"
    finally:
        keeping.cancel()
        await plugin.stop()


async def test_withdrawn_resource_is_withheld_unless_pods_hold_devices(kubelet):
    plugin = plugin_of(kubelet, is_managed=lambda: False)
    await plugin.advertise(CARDS, 2)
    assert plugin.withheld
    await plugin.advertise(CARDS, 2, {unit("b", 1)})
    assert not plugin.withheld


async def test_stopped_plugin_removes_socket_and_can_start_again(kubelet):
    plugin = plugin_of(kubelet)
    for _ in range(2):
        await plugin.start()
        assert plugin.socket.is_socket()
        await plugin.stop()
        assert not plugin.socket.exists()
    await plugin.stop()
    assert len(kubelet.registered) == 2


async def test_socket_of_killed_plugin_is_replaced(kubelet):
    plugin = plugin_of(kubelet)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(plugin.socket))
        left.listen()
        await plugin.start()
        async with kubelet.dial(plugin.endpoint) as dialled:
            await dialled.GetDevicePluginOptions(api.Empty(), timeout=30)
    await plugin.start()
    assert len(kubelet.registered) == 2, "started again, as after a restart of the kubelet"
    await plugin.stop()


async def test_refusal_of_kubelet_is_raised_with_its_message(kubelet):
    kubelet.refuses = True
    plugin = plugin_of(kubelet)
    with pytest.raises(DevicePluginError, match=f"cannot register {MEMORY} with the kubelet: no such version"):
        await plugin.start()
    await plugin.stop()


async def test_missing_plugin_folder_is_an_error(kubelet):
    plugin = plugin_of(kubelet)
    shutil.rmtree(plugin.socket.parent)
    with pytest.raises(DevicePluginError, match=f"cannot serve on {plugin.socket}"):
        await plugin.start()


async def test_pod_resources_larger_than_message_limit_are_read(kubelet):
    container = kubelet.answer.pod_resources[0].containers.add(name="c")
    for number in range(130_000):
        container.devices.add(resource_name=MEMORY, device_ids=[unit("a", number)])
    answer = await list_pod_resources(kubelet.root)
    assert answer.ByteSize() > MAX_MESSAGE_BYTES
    assert [len(ids) for ids in list_held_devices(answer, MEMORY).values()] == [130_000]


async def test_held_devices_are_read_from_pod_resources_socket(kubelet, tmp_path):
    answer = await list_pod_resources(kubelet.root)
    assert [pod.name for pod in answer.pod_resources] == ["p"]
    with pytest.raises(DevicePluginError, match="cannot read the kubelet's pod resources"):
        await list_pod_resources(tmp_path)


async def test_restart_of_kubelet_is_noted_but_first_kubelet_is_not(kubelet):
    noted, found_any = [], asyncio.Event()
    plugin = plugin_of(kubelet)
    found_any.set()
    await plugin.advertise(CARDS, 2)
    keeping = asyncio.create_task(keep_registered(kubelet.root, [plugin], found_any, lambda: noted.append(1)))
    try:
        await until(lambda: kubelet.registered)
        assert noted == []
        socket = kubelet.root / KUBELET_SOCKET
        before = socket.stat().st_ctime_ns
        # Its time has not changed yet where the file system's clock has not moved on since it was made.
        await until(lambda: socket.rename(socket.with_name("moved")).rename(socket).stat().st_ctime_ns != before)
        await until(lambda: noted)
    finally:
        keeping.cancel()
        await plugin.stop()
    assert noted == [1]
