"""A cluster for `accelkit defrag`, on an API server in memory."""

from __future__ import annotations

from typing import Any

from fake_api.server import FakeApi
from support.nodes import build_node
from support.pods import REFUSED, build_pod
from support.requests import build_inventory

from accelkit.defragmentation.plan import DefragmentationPlan, Planner
from accelkit.defragmentation.reading import read_cluster
from accelkit.kube.paths import NODES, PODS
from accelkit.model.assignment import Share
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.rules import read_rules

MEMORY = "accelkit.io/memory"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
OWNER = {"kind": "ReplicaSet", "controller": True}


class PlannedCluster:
    """Nodes of cards of 8 units, and pods."""

    def __init__(self) -> None:
        self.api = FakeApi()

    def node(self, name: str, cards: int = 2, *, cpu: str = "8", **of: Any) -> None:
        listed = build_inventory(*(f"{name}-{place}" for place in range(cards)), memory=8)
        self.api.store(NODES, build_node(name, listed, allocatable={"cpu": cpu, "memory": "8Gi"}, **of))

    def pod(self, name: str, memory: int, priority: int = 0, card: str = "", **of: Any) -> None:
        metadata = {"labels": of.get("labels") or {}, "annotations": of.get("annotations", {})}
        metadata |= {"ownerReferences": [owner]} if (owner := of.get("owner", OWNER)) and card else {}
        metadata |= of.get("metadata", {})
        limits = of.get("limits") or {MEMORY: str(memory)}
        container = {"name": "c", "resources": {"limits": limits, "requests": {**limits, "cpu": "1"}}}
        spec = {"priority": priority, **of.get("spec", {})}
        if card:
            spec |= {"nodeName": card.rpartition("-")[0]}
        shares = {"c": (Share(card, memory),)} if card else None
        status = {} if card else REFUSED
        self.api.store(PODS, build_pod(name, container, assigned=shares, metadata=metadata, status=status, **spec))
        self.api.reviews[f"/api/v1/namespaces/d/pods/{name}/eviction"] = lambda _: {}

    def budget(self, labels: dict[str, str], allowed: int = 0) -> None:
        metadata = {"name": f"b{len(self.api.objects)}", "namespace": "d"}
        spec, status = {"selector": {"matchLabels": labels}}, {"disruptionsAllowed": allowed}
        self.api.store(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})

    async def plan(
        self, most: int = 10, *, dialects: tuple[str, ...] = (), rules: object = None
    ) -> DefragmentationPlan:
        cluster = await read_cluster(self.api, dialects, read_rules(rules))
        return Planner(cluster, Policy.BINPACK, most).plan()


def told(plan: DefragmentationPlan) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Who gets in where, and who leaves whither."""
    return [(step.pod, step.node, [(each.pod, each.fits) for each in step.evictions]) for step in plan.steps]
