import copy

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.enablement import verifying
from accelkit.enablement.facts.node_facts import ClusterFacts, list_node_facts
from accelkit.enablement.facts.node_state import build_state, read_inventory
from accelkit.enablement.facts.objects import NodeDetails, OwnPod
from accelkit.enablement.report.make import make_report
from accelkit.enablement.stages.judging import judge_node
from accelkit.errors import ApiError
from accelkit.gkm.names import CACHE_NODES, CLUSTER_CACHE_NODES
from accelkit.gkm.objects import CacheNode
from accelkit.kube.paths import NODES, PODS
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION, LABELS_ANNOTATION, STAGES_ANNOTATION
from accelkit.model.stage import NodeState, Outcome, Stage, StageRecord, StageResult, write_record

GIB = 2**30
TOKENS_PATH = "serviceaccounts/accelkit-inspector/token"
NOW = 1_900_000_000.0
LABELS = {"accelkit.io/cards.count": "2", "nvidia.com/gpu.count": "2"}


class EnabledNode:
    """A node on which every stage passes, as its objects on the API server; a test changes what it is about."""

    def __init__(self, name="n"):
        self.name = name
        self.cards = [
            Card(f"GPU-{name}-{index}", "nvidia", "H100", 80 * GIB, driver_version="550.54") for index in range(2)
        ]
        self.inventory = {}
        self.labels = {"accelkit.io/share": "true", **LABELS}
        self.annotations = {LABELS_ANNOTATION: msgspec.json.encode(LABELS).decode()}
        self.info = {"bootID": "boot-1", "kernelVersion": "6.8.0-45", "containerRuntimeVersion": "containerd://2.1.0"}
        self.conditions = [{"type": "Ready", "status": "True"}]
        self.allocatable = {"accelkit.io/memory": "160", "accelkit.io/cards": "2"}
        self.capacity = dict(self.allocatable)
        self.pods = [self.build_pod("node-agent")]
        self.checked = dict.fromkeys((Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK), Outcome.PASS)
        self.checked_in = None

    def build_pod(self, component, **more):
        """A pod of accelkit's that is ready, as the controller of a DaemonSet makes it."""
        labels = {"app.kubernetes.io/component": component, "app.kubernetes.io/part-of": "accelkit"}
        metadata = {"name": f"{component}-{self.name}", "namespace": "accelkit", "uid": self.name, "labels": labels}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **more}
        return {"metadata": metadata, "spec": {"nodeName": self.name}, "status": status}

    def wait(self, **container):
        """Let the agent's pod not be ready, with one container in this state."""
        self.pods[0]["status"] = {"phase": "Running", "containerStatuses": [{"name": "node-agent", **container}]}

    def change_card(self, index=0, **fields):
        self.cards[index] = msgspec.structs.replace(self.cards[index], **fields)

    @property
    def state(self):
        node = msgspec.convert(self._build(with_record=False), NodeDetails)
        return build_state(node, read_inventory(node))

    def build(self):
        return self._build(with_record=True)

    def _build(self, *, with_record):
        annotations = dict(self.annotations)
        if INVENTORY_ANNOTATION not in annotations:
            annotations[INVENTORY_ANNOTATION] = encode_inventory(Inventory(GIB, tuple(self.cards), **self.inventory))
        if with_record and self.checked:
            state = self.checked_in or self.state
            results = {
                stage: StageResult(outcome, evidence="4 GiB of its share", found_at=1.0, seconds=2.5, state=state)
                for stage, outcome in self.checked.items()
            }
            annotations.setdefault(STAGES_ANNOTATION, write_record(StageRecord(results)))
        annotations = {key: text for key, text in annotations.items() if text is not None}
        return {
            "metadata": {"name": self.name, "labels": dict(self.labels), "annotations": annotations},
            "status": {
                "nodeInfo": self.info,
                "conditions": self.conditions,
                "allocatable": self.allocatable,
                "capacity": self.capacity,
            },
        }


class Enabled:
    """Nodes on which every stage passes, judged without an API server or put on one."""

    def __init__(self, *names):
        self.nodes = {name: EnabledNode(name) for name in names or ("n",)}
        self.caches = []
        self.more = {}

    def __getitem__(self, name):
        return self.nodes[name]

    @property
    def node(self):
        (node,) = self.nodes.values()
        return node

    def install_caches(self, *reports):
        """Run the cache agent everywhere; each report is a namespace, a cache and its conditions."""
        for node in self.nodes.values():
            node.pods.append(node.build_pod("kernel-caches"))
        for namespace, cache, *conditions in reports:
            named = {"metadata": {"name": self.node.name, "namespace": namespace}}
            status = {"caches": {cache: {"sha256:1": {"conditions": conditions}}}}
            self.caches.append({**named, "status": status})
        self.more.setdefault("caches", [])

    def facts(self, **more):
        given = {
            "namespace": "accelkit",
            "nodes": [msgspec.convert(node.build(), NodeDetails) for node in self.nodes.values()],
            "pods": [msgspec.convert(pod, OwnPod) for node in self.nodes.values() for pod in node.pods],
            **self.more,
        }
        if self.caches:
            given["caches"] = [msgspec.convert(each, CacheNode) for each in self.caches]
        return ClusterFacts(**{**given, **more})

    def judge(self, **more):
        """The results of the one node."""
        (facts,) = list_node_facts(self.facts(**more))
        return judge_node(facts, now=NOW)

    def report(self, **more):
        return make_report(self.facts(**more), server="https://api", now=NOW)

    def serve(self, api=None):
        """All of it on an API server."""
        api = FakeApi() if api is None else api
        # Without an extender, its ledger is not compared.
        api.fail(ApiError("there is none", status=404), "POST", TOKENS_PATH, times=None)
        for node in self.nodes.values():
            api.store(NODES, node.build())
            for pod in node.pods:
                api.store(PODS, copy.deepcopy(pod))
        for each in self.caches:
            api.store(CACHE_NODES if each["metadata"].get("namespace") else CLUSTER_CACHE_NODES, each)
        return api


@pytest.fixture
def enabled():
    """Make nodes on which every stage passes."""
    return Enabled


@pytest.fixture
def cluster():
    """One such node."""
    return Enabled("n")


@pytest.fixture
def told():
    """Outcome and reason of a stage among results."""

    def tell(results, stage):
        return str(results[stage].outcome), results[stage].reason

    return tell


@pytest.fixture
def another_state():
    return NodeState("boot-0", "6.8.0-44", "550.54", "0" * 16)


@pytest.fixture(autouse=True)
def _settle_at_once(monkeypatch):
    monkeypatch.setattr(verifying, "SETTLE_SECONDS", 0.0)
