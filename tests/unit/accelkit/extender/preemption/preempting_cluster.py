"""A node with pods of priorities, known to a feed and to an API server, for those who evict."""

from __future__ import annotations

from typing import Any

import msgspec
from fake_api.server import FakeApi, Request
from support.nodes import read_node
from support.pods import REFUSED, build_pod
from support.requests import build_inventory

from accelkit.errors import ApiError
from accelkit.kube.paths import PODS
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Share
from accelkit.model.pod import Node, Pod
from accelkit.vendors.dialects import load_dialects

CARDS = build_inventory("a", "b", memory=8)
MEMORY = "accelkit.io/memory"
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
        return read_node(name, CARDS, allocatable={"cpu": "8", "memory": "8Gi"})

    def pod(self, name: str, memory: int, priority: int, card: str = "", **of: Any) -> dict[str, Any]:
        """A pod on a card of node `node`, `n` by default, or one that kube-scheduler has refused."""
        namespace = of.get("namespace", "d")
        metadata = {"namespace": namespace, "labels": of.get("labels", {}), "annotations": of.get("annotations", {})}
        metadata |= of.get("metadata", {})
        container = {"name": "c", "resources": {"limits": {MEMORY: str(memory)}, "requests": of.get("requests", {})}}
        spec = {"priority": priority, **of.get("spec", {}), **({"nodeName": of.get("node", "n")} if card else {})}
        shares = {"c": (Share(card, memory),)} if card else None
        status = {"phase": "Running"} if card else REFUSED | of.get("status", {})
        pod = build_pod(name, container, assigned=shares, metadata=metadata, status=status, **spec)
        item = self.api.store(PODS, pod)
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
