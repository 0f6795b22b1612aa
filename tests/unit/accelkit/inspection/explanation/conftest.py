import json

import msgspec
import pytest
from aiohttp import web
from fake_api.kubeconfig import write_kubeconfig
from support.pods import build_container, build_pod
from support.simulated_cluster import SimulatedCluster

from accelkit.extender.simulation import event_loop_share as turns
from accelkit.inspection.inspection import view
from accelkit.inspection.simulation import SimulationQuestion
from accelkit.kube.paths import build_pod_path

SERVICES = "/api/v1/namespaces/accelkit/services/https:accelkit-extender:read/proxy"
TOKEN = "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-inspector/token"  # noqa: S105 - a path


class Explained(SimulatedCluster):
    """An extender that holds a ledger, and an API server that proxies to it and has a pod."""

    def __init__(self, server, folder):
        super().__init__()
        self.server, self.questions = server, []
        self.kubeconfig = write_kubeconfig(folder, server.url)
        server.on("POST", TOKEN, lambda _: web.json_response({"status": {"token": "t"}}))
        server.on("POST", f"({SERVICES})?/simulate", self._simulate)
        server.on("GET", f"({SERVICES})?/inspect/.*", self._inspect)

    def pod(self, memory=0, *, node="", phase="Pending", said="", **more):
        """Put the pod `d/p` on the API server."""
        container = build_container(more.get("limits") or {"accelkit.io/memory": memory}, "main")
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 100}
        if "request" in more:
            annotations["accelkit.io/request"] = json.dumps(more["request"])
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        pod = build_pod(
            "p",
            {**container, "image": "i", "env": [{"name": "SECRET"}]},
            metadata={"labels": {"a": "b"}, "annotations": annotations},
            status={"phase": phase, **({"conditions": [condition]} if said else {})},
            schedulerName="default-scheduler",
            **({"nodeName": node} if node else {}),
        )
        self.server.on("GET", build_pod_path("d", "p"), lambda _: web.json_response(pod))

    async def _simulate(self, request):
        self.questions.append(json.loads(await request.read()))
        question = msgspec.convert(self.questions[-1], SimulationQuestion)
        return web.Response(body=await self.simulator.simulate(question))

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
