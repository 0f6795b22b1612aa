"""A cluster in memory whose scheduler, extender, kubelets and agents do with check pods what a test says."""

import itertools
import json

import pytest
from fake_api.watches import WatchedApi

from accelkit.enablement.work import pod_life, run, sides
from accelkit.enablement.work.pods import CheckPods, name_pod
from accelkit.enablement.work.reasons import NEXT_ACTIONS
from accelkit.enablement.work.run import check_nodes
from accelkit.inspection.inspection import CardView, InspectedNode, ShareView, Totals, assemble
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, ALLOCATIONS_LABELS
from accelkit.model.stage import Outcome

GIB = 2**30
PODS = "/api/v1/namespaces/accelkit/pods"
MAPS = "/api/v1/namespaces/accelkit/configmaps"
MEMORY = "accelkit.io/memory"


def card_of(node, vendor="simulated"):
    identity = {"nvidia": f"GPU-{node}"}.get(vendor, f"sim-{node}")
    return {"id": identity, "vendor": vendor, "model": "m", "memory_bytes": 16 * GIB, "index": 0, "minor": 3}


def evidence_of(vendor, card, **changed):
    variable = {"nvidia": "NVIDIA_VISIBLE_DEVICES", "simulated": "ACCELKIT_VISIBLE_DEVICES"}[vendor]
    told = {
        "version": 1,
        "passed": True,
        "memory_bytes": GIB,
        "variables": {variable: card},
        "device_nodes": ["/dev/nvidia3"] if vendor == "nvidia" else [],
        "work": "8 numbers added",
    }
    return json.dumps(told | changed)


class WorkCluster(WatchedApi):
    """Nodes with one card each; `steps` maps a node to what happens to its pod, else all goes well.

    Attributes:
        free: by node, what the ledger has free.
        counted: by node, what the ledger counts for the pod, in bytes, or None for nothing.
        held: by node, what its kubelet holds by card, or None where the agent shows nothing.
        ledger_error: why the extender does not answer.
        most: how many pods there were at one time.
        names: by node, how its pod was called last.
    """

    evidence = staticmethod(evidence_of)

    def __init__(self):
        super().__init__()
        self.nodes, self.steps, self.names = {}, {}, {}
        self.free, self.counted, self.held = {}, {}, {}
        self.ledger_error = None
        self.asked = 0
        self.most = 0
        self._uids = itertools.count()
        self.before.append(self._name)
        self.after.append(self._live)

    def add(self, name, vendor="simulated", *, allocatable="16", labels=None, card=None):
        card = card or card_of(name, vendor)
        self.nodes[name] = card
        inventory = json.dumps({"version": 1, "unit_bytes": GIB, "cards": [card]})
        self.store(
            "/api/v1/nodes",
            {
                "metadata": {
                    "name": name,
                    "annotations": {INVENTORY_ANNOTATION: inventory},
                    "labels": labels or {"accelkit.io/share": "true"},
                },
                "status": {
                    "capacity": {MEMORY: "16"},
                    "allocatable": {MEMORY: allocatable},
                    "nodeInfo": {"bootID": "b", "kernelVersion": "6.1"},
                },
            },
        )

    def leave(self, name, **more):
        """Put a check pod there that a former run left."""
        labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "share-check"}
        return self.store(PODS, {"metadata": {"name": name, "uid": name, "labels": labels, **more}, "spec": {}})

    def keep(self, name, **more):
        """Have such a pod stay whoever deletes it."""
        self.leave(name, **more)

        def come_back(request):
            if request.method == "DELETE" and request.path == f"{PODS}/{name}":
                self.leave(name, **more)

        self.after.append(come_back)

    def node(self, name):
        return self.objects[f"/api/v1/nodes/{name}"]

    def recorded(self, name):
        return json.loads(self.node(name)["metadata"]["annotations"]["accelkit.io/stages"])["results"]

    def pod_path(self, node):
        return f"{PODS}/{self.names.get(node, name_pod(node))}"

    @property
    def pods(self):
        return [path for path in self.objects if path.startswith(f"{PODS}/")]

    @property
    def created(self):
        return [each.body for each in self.requests if each.method == "POST" and each.path == PODS]

    async def ledger(self):
        self.asked += 1
        if self.ledger_error is not None:
            return self.ledger_error
        return assemble([self._count(name, card) for name, card in self.nodes.items()])

    def _count(self, name, card):
        pod = self.objects.get(self.pod_path(name))
        held = self.counted.get(name, GIB)
        shares = []
        if pod and pod["spec"].get("nodeName") and held is not None:
            metadata = pod["metadata"]
            shares = [ShareView("accelkit", metadata["name"], metadata["uid"], "check", held, 0, False, "bound")]
        free = self.free.get(name, 16 * GIB)
        view = CardView(
            card["id"], card["vendor"], "m", 16 * GIB, 0, 16 * GIB, 0, free, 0, False, "healthy", True, shares
        )
        return InspectedNode(name, "shared", "", GIB, [view], [], Totals(1, 0, 0, 0))

    def _name(self, request):
        if request.method == "POST" and request.path == PODS:
            request.body["metadata"]["uid"] = f"uid-{next(self._uids)}"
            self.names[self.node_of(request.body)] = request.body["metadata"]["name"]

    def _live(self, request):
        if request.method == "POST" and request.path == PODS:
            self.most = max(self.most, len(self.pods))
            node = self.node_of(request.body)
            self.steps.get(node, WorkCluster.run_well)(
                self, node, self.objects[f"{PODS}/{request.body['metadata']['name']}"]
            )

    def node_of(self, pod):
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]

    def bind(self, node, pod, *, assigned=True):
        pod["spec"]["nodeName"] = node
        if assigned:
            shares = {"version": 1, "containers": {"check": [{"card": self.nodes[node]["id"], "memory_bytes": GIB}]}}
            pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] = json.dumps(shares)
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        }

    def admit(self, node, pod):
        pod["status"] |= {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        devices = self.held.get(node, {self.nodes[node]["id"]: 1})
        held = [
            {"namespace": "accelkit", "name": pod["metadata"]["name"], "containers": {"check": {"memory": devices}}}
        ]
        text = json.dumps({"node": node, "pods": [] if devices is None else held, "version": 1})
        labels = {"name": node, "labels": dict(ALLOCATIONS_LABELS)}
        self.store(MAPS, {"metadata": labels, "data": {ALLOCATIONS_KEY: text}})

    def end(self, node, pod, *, code=0, message=None, reason="Completed"):
        card = self.nodes[node]
        message = evidence_of(card["vendor"], card["id"]) if message is None else message
        ended = {"exitCode": code, "reason": reason, "message": message}
        pod["status"]["containerStatuses"] = [
            {"name": "check", "state": {"terminated": ended}},
            {"name": "hold", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        ]

    def run_well(self, node, pod, *, assigned=True):
        self.bind(node, pod, assigned=assigned)
        self.admit(node, pod)
        self.end(node, pod)

    def condition(self, pod, reason, message):
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}],
        }


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(run, "AGREE_SECONDS", 0.05)
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(sides, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(pod_life, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(pod_life, "POLL_SECONDS", 0.0)
    return WorkCluster()


@pytest.fixture
def check_pods():
    return CheckPods("accelkit", "image:1", ("pull",), seconds=0.3)


@pytest.fixture
def check(cluster, check_pods):
    """Check nodes; return outcome and reason of both stages by node."""

    async def checked(*names, at_once=32):
        found = await check_nodes(cluster, names, check_pods, ledger=cluster.ledger, at_once=at_once)
        assert cluster.pods == [], "no pod stays"
        for name, each in found.items():
            for result in each.values():
                assert (result.reason == "") is (result.outcome is Outcome.PASS)
                assert result.next_action == NEXT_ACTIONS.get(result.reason, "").format(node=name, namespace="accelkit")
        return found

    return checked


@pytest.fixture
def check_one(cluster, check):
    """Check the node `a`; return what is found. A step is what happens to its pod, else all goes well."""

    async def checked(step=None, vendor="simulated"):
        cluster.add("a", vendor)
        if step is not None:
            cluster.steps["a"] = step
        return await check("a")

    return checked
