"""A cluster for `accelkit defrag`, on an API server in memory."""

from __future__ import annotations

from typing import Any

from fake_api.server import FakeApi

from accelkit.defragmentation.plan import Plan, Planner
from accelkit.defragmentation.reading import read_cluster
from accelkit.kube.paths import NODES, PODS
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules

MEMORY = "accelkit.io/memory"
REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
OWNER = {"kind": "ReplicaSet", "controller": True}


class PlannedCluster:
    """Nodes of cards of 8 units, and pods."""

    def __init__(self) -> None:
        self.api = FakeApi()

    def node(
        self,
        name: str,
        cards: int = 2,
        *,
        spec: object = None,
        labels: dict[str, str] | None = None,
        cpu: str = "8",
        annotations: dict[str, str] | None = None,
    ) -> None:
        listed = Inventory(1, tuple(Card(f"{name}-{place}", "v", "m", 8) for place in range(cards)))
        metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
        metadata["annotations"] = {INVENTORY_ANNOTATION: encode_inventory(listed), **(annotations or {})}
        status = {"allocatable": {"cpu": cpu, "memory": "8Gi"}}
        self.api.store(NODES, {"metadata": metadata, "spec": spec or {}, "status": status})

    def pod(self, name: str, memory: int, priority: int = 0, card: str = "", **of: Any) -> None:
        shares = encode_assignment(Assignment({"c": (Share(card, memory),)}))
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "d",
            "uid": f"uid-{name}",
            "labels": of.get("labels") or {},
        }
        metadata |= {"annotations": {ASSIGNMENT_ANNOTATION: shares} if card else {}}
        metadata["annotations"] |= of.get("annotations", {})
        metadata |= {"ownerReferences": [owner]} if (owner := of.get("owner", OWNER)) and card else {}
        metadata |= of.get("metadata", {})
        limits = of.get("limits") or {MEMORY: str(memory)}
        resources = {"limits": limits, "requests": {**limits, "cpu": "1"}}
        made: dict[str, Any] = {
            "containers": [{"name": "c", "resources": resources}],
            "priority": priority,
            **of.get("spec", {}),
        }
        made |= {"nodeName": card.rpartition("-")[0]} if card else {}
        self.api.store(PODS, {"metadata": metadata, "spec": made, "status": {} if card else REFUSED})
        self.api.reviews[f"/api/v1/namespaces/d/pods/{name}/eviction"] = lambda _: {}

    def budget(self, labels: dict[str, str], allowed: int = 0) -> None:
        metadata = {"name": f"b{len(self.api.objects)}", "namespace": "d"}
        spec, status = {"selector": {"matchLabels": labels}}, {"disruptionsAllowed": allowed}
        self.api.store(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})

    async def plan(self, most: int = 10, *, dialects: tuple[str, ...] = (), rules: object = None) -> Plan:
        cluster = await read_cluster(self.api, dialects, read_rules(rules))
        return Planner(cluster, Policy.BINPACK, most).plan()


def told(plan: Plan) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Who gets in where, and who leaves whither."""
    return [(step.pod, step.node, [(each.pod, each.fits) for each in step.evictions]) for step in plan.steps]
