"""A node with pods of priorities, known to a feed and to an API server, for those who evict."""

from __future__ import annotations

from typing import Any

import msgspec
from fake_api.server import FakeApi, Request
from support.requests import build_inventory

from accelkit.errors import ApiError
from accelkit.kube.paths import PODS
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.inventory import encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.pod import Node, Pod
from accelkit.vendors.dialects import load_dialects

CARDS = build_inventory("a", "b", memory=8)
MEMORY = "accelkit.io/memory"
REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class PreemptingCluster:
    """Nodes of two cards of 8 units, `a` and `b`; what is evicted is gone at once, unless it lingers."""

    def __init__(self, *nodes: str) -> None:
        self.api, self.ledger = FakeApi(), Ledger(unit_bytes=1)
        self.feed = LedgerFeed(self.ledger, load_dialects(["native"]))
        self.evicted: list[str] = []
        self.namespaces: dict[str, str] = {}
        self.lingering = False
        for name in nodes or ("n",):
            self.feed.take_node_event("ADDED", self.build_node(name))

    @staticmethod
    def build_node(name: str) -> Node:
        metadata = {"name": name, "annotations": {INVENTORY_ANNOTATION: encode_inventory(CARDS)}}
        return msgspec.convert({"metadata": metadata, "status": {"allocatable": {"cpu": "8", "memory": "8Gi"}}}, Node)

    def pod(self, name: str, memory: int, priority: int, card: str = "", **of: Any) -> dict[str, Any]:
        """A pod on a card of node `node`, `n` by default, or one that kube-scheduler has refused."""
        shares = encode_assignment(Assignment({"c": (Share(card, memory),)}))
        namespace = of.get("namespace", "d")
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": of.get("labels", {})}
        metadata["annotations"] = ({ASSIGNMENT_ANNOTATION: shares} if card else {}) | of.get("annotations", {})
        metadata |= of.get("metadata", {})
        resources = {"limits": {MEMORY: str(memory)}, "requests": of.get("requests", {})}
        spec = {"containers": [{"name": "c", "resources": resources}], "priority": priority, **of.get("spec", {})}
        if card:
            spec["nodeName"] = of.get("node", "n")
        status = {"phase": "Running"} if card else REFUSED | of.get("status", {})
        item = self.api.store(PODS, {"metadata": metadata, "spec": spec, "status": status})
        self.feed.take_pod_event("ADDED", msgspec.convert(item, Pod))
        self.namespaces[name] = namespace
        self.api.reviews[f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"] = self._evict
        return item

    def budget(self, allowed: int, labels: dict[str, str]) -> None:
        """A PodDisruptionBudget of their namespace."""
        spec = {"selector": {"matchLabels": labels}}
        metadata = {"name": f"budget-{len(self.api.objects)}", "namespace": "d"}
        self.api.store(BUDGETS, {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}})

    def leave(self, name: str) -> None:
        """A pod is gone."""
        item = self.api.objects.pop(f"/api/v1/namespaces/{self.namespaces[name]}/pods/{name}")
        self.feed.take_pod_event("DELETED", msgspec.convert(item, Pod))

    def _evict(self, request: Request) -> object:
        name, options = request.body["metadata"]["name"], request.body["deleteOptions"]
        if options["preconditions"] != {"uid": f"uid-{name}"}:
            raise ApiError("another pod", status=409, reason="Conflict")
        if "dryRun" not in options:
            self.evicted.append(name)
            if not self.lingering:
                self.leave(name)
        return {}
