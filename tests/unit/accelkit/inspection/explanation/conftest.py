from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from aiohttp import web
from fake_api.kubeconfig import write_kubeconfig

from accelkit.extender.simulation import turns
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.inspection.inspection import view
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Pod, PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

GIB = 2**30
SERVICES = "/api/v1/namespaces/accelkit/services/https:accelkit-extender:read/proxy"
TOKEN = "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-inspector/token"  # noqa: S105 - a path


class Explained:
    """An extender that holds a ledger, and an API server that proxies to it and has a pod.

    Amounts are in GiB; a node has two cards of 16, and on it a pod `NODE-N` of each amount.
    """

    def __init__(self, server, folder):
        self.ledger = Ledger(unit_bytes=GIB)
        feed = LedgerFeed(self.ledger, load_dialects(["native", "gcushare", "gas"]))
        self._simulator = Simulator(self.ledger, feed, Verbs(self.ledger, feed, Policy.BINPACK))
        self.server, self.questions = server, []
        self.kubeconfig = write_kubeconfig(folder, server.url)
        server.on("POST", TOKEN, lambda _: web.json_response({"status": {"token": "t"}}))
        server.on("POST", f"({SERVICES})?/simulate", self._simulate)
        server.on("GET", f"({SERVICES})?/inspect/.*", self._inspect)

    def node(self, name, *held, cards=2, **of_card):
        listed = [Card(f"{name}-card-{n}", "v", "m", 16 * GIB, index=n) for n in range(cards)]
        listed[0] = msgspec.structs.replace(listed[0], **of_card)
        self.ledger.put_node(name, Inventory(GIB, tuple(listed)))
        for number, memory in enumerate(held):
            request = PodRequest((ContainerRequest("c", Kind.APP, 1, memory * GIB, whole=not memory),))
            self.ledger.reserve(PodRef("team", f"{name}-{number}", f"uid-{name}-{number}"), name, request, "binpack")

    def pod(self, memory=0, *, cards=0, node="", phase="Pending", said="", **more):
        """Put the pod `d/p` on the API server; return it."""
        limits = more.get("limits") or ({"accelkit.io/memory": memory} if memory else {"accelkit.io/cards": cards})
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 100}
        if "request" in more:
            annotations["accelkit.io/request"] = json.dumps(more["request"])
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        pod = {
            "metadata": {
                "name": "p",
                "namespace": "d",
                "uid": "uid-p",
                "labels": {"a": "b"},
                "annotations": annotations,
            },
            "spec": {
                "containers": [
                    {"name": "main", "image": "i", "env": [{"name": "SECRET"}], "resources": {"limits": limits}}
                ],
                "schedulerName": "default-scheduler",
                **({"nodeName": node} if node else {}),
            },
            "status": {"phase": phase, **({"conditions": [condition]} if said else {})},
        }
        self.server.on("GET", build_pod_path("d", "p"), lambda _: web.json_response(pod))
        return pod

    async def _simulate(self, request):
        self.questions.append(json.loads(await request.read()))
        question = msgspec.convert(self.questions[-1], SimulationQuestion)
        return web.Response(body=await self._simulator.simulate(question))

    def _inspect(self, request):
        name = request.path.rpartition("/")[2]
        entry = self.ledger.find_node(name)
        if entry is None:
            return web.json_response({"error": f"there is no node {name!r}"}, status=404)
        return web.Response(body=msgspec.json.encode(view([entry])))


@pytest.fixture
def explained(hostile_registry, tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "_REST_RATIO", 0)
    return Explained(hostile_registry, tmp_path)


@pytest.fixture
def simulate():
    """Ask a simulator without a server."""

    def simulate(explained, pod, **question):
        asked = SimulationQuestion(msgspec.convert(pod, Pod), **question)
        return msgspec.json.decode(asyncio.run(explained._simulator.simulate(asked)), type=Simulation)

    return simulate
