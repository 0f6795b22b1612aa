"""An agent that serves slots and the extender under GAS's flags, in this process, and a kubelet that asks."""

import asyncio
import json

import pytest
from aiohttp import ClientError, ClientSession
from fake_api.watches import WatchedApi
from ports import free_port
from support.kubelets import build_allocation, build_preference, serve_kubelet
from support.waiting import until

from accelkit.extender import service
from accelkit.extender.gas.command import build_options
from accelkit.kube.paths import NODES, PODS
from accelkit.node import agent
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.devices import DeviceIds
from accelkit.node.health import HealthChecks
from accelkit.node.options import AgentOptions
from accelkit.serving.tls import Listen

I915 = "gpu.intel.com/i915"
CARDS = [{"id": f"sim-{number}", "model": "m", "memory_bytes": 16 * 2**30, "index": number} for number in range(2)]
PATIENCE = 60


@pytest.fixture
async def kubelet():
    async with serve_kubelet() as kubelet:
        (kubelet.root / "etc/accelkit").mkdir(parents=True)
        cards = json.dumps({"version": 1, "cards": CARDS})
        (kubelet.root / "etc/accelkit/simulated-cards.json").write_text(cards)
        yield kubelet


async def test_card_chosen_by_extender_is_offered_to_kubelet(kubelet, monkeypatch):
    cluster, port = WatchedApi(), free_port()
    node = cluster.store(NODES, {"metadata": {"name": "n", "uid": "node", "resourceVersion": "1"}})
    for module in (agent, service):
        monkeypatch.setattr(module, "ApiClient", lambda *_, **__: cluster)
        monkeypatch.setattr(module, "load_connection", lambda _: None)
    monkeypatch.setattr(service, "make_review_client", lambda _: cluster)
    given = AgentOptions("n", kubelet.root, 2**30, "native", health=HealthChecks.NONE, gas_slots=2)
    told = build_options(
        listen=Listen("127.0.0.1", port), kubeconfig=None, allow=True, deny=False, balanced_resource=""
    )
    running = [asyncio.create_task(each) for each in (agent.run(given), service.run(told))]
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:

            async def ask(path, body):
                async with session.post(path, json=body) as answer:
                    return json.loads(await answer.read())

            async def registered():
                assert not any(each.done() for each in running), running
                return kubelet.find_endpoint(I915) and kubelet.find_endpoint("gpu.intel.com/xe")

            await until(registered)
            node = cluster.objects[f"{NODES}/n"]
            allocatable = {I915: "4", "gpu.intel.com/foo": "20"}
            node["status"] = {"allocatable": allocatable, "capacity": allocatable}
            node["metadata"]["resourceVersion"] = "1000"
            metadata = {
                "name": "p",
                "namespace": "d",
                "uid": "u",
                "resourceVersion": "1",
                # Lists of denied cards are not read here.
                "annotations": {"gas-allow": "card1", "gas-deny": "card1"},
            }
            limits = {I915: "1", "gpu.intel.com/foo": "9"}
            pod = {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}
            cluster.store(PODS, pod)

            async def fits():
                try:
                    return (await ask("/scheduler/filter", {"Pod": pod, "NodeNames": ["n"]}))["NodeNames"]
                except (ClientError, KeyError):
                    return []

            assert await until(fits) == ["n"]
            names = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}
            assert (await ask("/scheduler/bind", names))["Error"] == ""
            bound = cluster.objects["/api/v1/namespaces/d/pods/p"]
            assert bound["metadata"]["annotations"]["gas-container-cards"] == "card1"
        async with kubelet.dial(kubelet.find_endpoint(I915)) as plugin:
            ids = DeviceIds(card["id"] for card in CARDS)
            shown = await anext(aiter(plugin.ListAndWatch(api.Empty())))
            devices = [each.ID for each in shown.devices]
            assert ids.count_by_card(devices) == {"sim-0": 2, "sim-1": 2}
            offered = await plugin.GetPreferredAllocation(build_preference(devices, 1), timeout=PATIENCE)
            (chosen,) = offered.container_responses[0].deviceIDs
            assert ids.find_card(chosen) == "sim-1"
            (answer,) = (await plugin.Allocate(build_allocation([chosen]), timeout=PATIENCE)).container_responses
            assert [each.container_path for each in answer.devices] == ["/dev/accelkit1"]
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
