"""Resources of former dialects, requested by a kubelet that uses the real protocol."""

import asyncio
import json

import grpc
import pytest
from device_names import unit
from fake_api.watches import WatchedApi
from support.kubelets import PluginPods, build_allocation, serve_kubelet
from support.waiting import until
from test_plugin_socket import CARDS

from accelkit.kube.paths import NODES
from accelkit.node import agent
from accelkit.node.device_plugin.former_resource import make_former_resources
from accelkit.node.device_plugin.registration import keep_registered
from accelkit.node.devices import DeviceIds
from accelkit.node.health import HealthChecks
from accelkit.node.options import AgentOptions
from accelkit.vendors.dialects import load_dialect

MEMORY, CARD = "enflame.com/gcu-memory", "enflame.com/gcu-count"


@pytest.fixture
async def kubelet():
    async with serve_kubelet() as kubelet:
        yield kubelet


@pytest.fixture
def plugins(kubelet):
    made = make_former_resources(kubelet.root, load_dialect("native"), PluginPods())
    return {each.resource: each for each in made}


def hold(kubelet, *device_ids, resource=MEMORY):
    """Let the kubelet report that one container holds these devices, and no other container any."""
    del kubelet.answer.pod_resources[:]
    kubelet.hold("p", device_ids, resource)


def test_current_and_foreign_resources_are_not_served_as_former_resources(plugins):
    assert {MEMORY, CARD} <= plugins.keys()
    assert not {"accelkit.io/memory", "accelkit.io/cards", "nvidia.com/gpu"} & plugins.keys()
    assert len({each.endpoint for each in plugins.values()}) == len(plugins)


async def test_held_devices_of_present_and_former_unit_are_listed(kubelet, plugins):
    plugin = plugins[MEMORY]
    await plugin.advertise(CARDS, 2)
    assert (plugin.withheld, plugin.reported, plugin.offered) == (True, False, False)
    # The cards have two units of memory each now.
    hold(kubelet, unit("a", 0), unit("b", 3), "another plugin's", "a")
    await plugin.advertise(CARDS, 2)
    assert (plugin.withheld, plugin.reported, plugin.offered) == (False, True, False)
    await plugin.start()
    try:
        assert await kubelet.list_devices(plugin.endpoint) == {unit("a", 0): "Healthy", unit("b", 3): "Healthy"}
        hold(kubelet, unit("b", 3))
        await plugin.advertise(CARDS, 2)
        assert await kubelet.list_devices(plugin.endpoint) == {unit("b", 3): "Healthy"}
    finally:
        await plugin.stop()


async def test_held_device_is_not_allocated_again(kubelet, plugins):
    hold(kubelet, unit("a", 0))
    plugin = plugins[MEMORY]
    await plugin.advertise(CARDS, 2)
    await plugin.start()
    try:
        async with kubelet.dial(plugin.endpoint) as dialled:
            with pytest.raises(grpc.aio.AioRpcError, match="no longer in use"):
                await dialled.Allocate(build_allocation([unit("a", 0)]), timeout=30)
    finally:
        await plugin.stop()


async def test_only_held_resources_are_registered_after_each_kubelet_start(kubelet, plugins):
    hold(kubelet, "a", resource=CARD)
    found_any = asyncio.Event()
    for plugin in plugins.values():
        await plugin.advertise(CARDS, 2)
    found_any.set()
    keeping = asyncio.create_task(keep_registered(kubelet.root, list(plugins.values()), found_any))
    try:
        await until(lambda: kubelet.registered)
        # A kubelet that starts removes all sockets in its folder.
        plugins[CARD].socket.unlink()
        await until(lambda: len(kubelet.registered) == 2)
        assert await kubelet.list_devices(plugins[CARD].endpoint) == {"a": "Healthy"}
        assert {each.resource_name for each in kubelet.registered} == {CARD}
    finally:
        keeping.cancel()
        await plugins[CARD].stop()


async def test_device_list_is_kept_while_kubelet_does_not_answer(kubelet, plugins):
    hold(kubelet, "a", resource=CARD)
    await plugins[CARD].advertise(CARDS, 2)
    await kubelet.server.stop(grace=0)
    await plugins[CARD].advertise(CARDS, 2)
    assert not plugins[CARD].withheld


async def test_agent_registers_former_resource_with_held_devices(kubelet, monkeypatch):
    cluster, held = WatchedApi(), DeviceIds(["sim-0"]).build_memory_id("sim-0", 7)
    cluster.store(NODES, {"metadata": {"name": "n", "uid": "node"}})
    monkeypatch.setattr(agent, "ApiClient", lambda *_, **__: cluster)
    monkeypatch.setattr(agent, "load_connection", lambda _: None)
    cards = [{"id": "sim-0", "model": "m", "memory_bytes": 16 * 2**30, "index": 0}]
    (kubelet.root / "etc/accelkit").mkdir(parents=True)
    (kubelet.root / "etc/accelkit/simulated-cards.json").write_text(json.dumps({"version": 1, "cards": cards}))
    hold(kubelet, held)
    options = AgentOptions("n", kubelet.root, 2**30, "native", health=HealthChecks.NONE)
    running = asyncio.create_task(agent.run(options))
    try:
        await until(lambda: running.done() or kubelet.find_endpoint(MEMORY))
        assert await kubelet.list_devices(kubelet.find_endpoint(MEMORY)) == {held: "Healthy"}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
