"""A cluster for `accelkit defrag`, on an API server in memory."""

from __future__ import annotations

import json

from fake_api.server import FakeApi

from accelkit.defragmentation.plan import Plan, Planner
from accelkit.defragmentation.reading import read_cluster
from accelkit.kube.paths import NODES, PODS
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, encode_inventory
from accelkit.placement.policies import Policy

MEMORY = "accelkit.io/memory"
REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
OWNER = {"kind": "ReplicaSet", "controller": True}


class PlannedCluster:
    """Nodes of cards of 8 units, and pods."""

    def __init__(self):
        self.api = FakeApi()

    def node(self, name, cards=2, *, spec=None, labels=None, cpu="8"):
        listed = Inventory(1, tuple(Card(f"{name}-{place}", "v", "m", 8) for place in range(cards)))
        metadata = {"name": name, "labels": labels or {}}
        metadata["annotations"] = {INVENTORY_ANNOTATION: encode_inventory(listed)}
        status = {"allocatable": {"cpu": cpu, "memory": "8Gi"}}
        self.api.store(NODES, {"metadata": metadata, "spec": spec or {}, "status": status})

    def pod(self, name, memory, priority=0, card="", *, owner=OWNER, labels=None, spec=None, request=None, **meta):
        shares = encode_assignment(Assignment({"c": (Share(card, memory),)}))
        metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "labels": labels or {}, **meta}
        metadata |= {"annotations": {ASSIGNMENT_ANNOTATION: shares} if card else {}}
        metadata["annotations"] |= {"accelkit.io/request": json.dumps(request)} if request else {}
        metadata |= {"ownerReferences": [owner]} if owner and card else {}
        resources = {"limits": {MEMORY: str(memory)}, "requests": {MEMORY: str(memory), "cpu": "1"}}
        made = {"containers": [{"name": "c", "resources": resources}], "priority": priority, **(spec or {})}
        made |= {"nodeName": card.rpartition("-")[0]} if card else {}
        self.api.store(PODS, {"metadata": metadata, "spec": made, "status": {} if card else REFUSED})
        self.api.reviews[f"/api/v1/namespaces/d/pods/{name}/eviction"] = lambda _: {}

    def budget(self, labels, allowed=0):
        metadata = {"name": f"b{len(self.api.objects)}", "namespace": "d"}
        spec, status = {"selector": {"matchLabels": labels}}, {"disruptionsAllowed": allowed}
        self.api.store(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})

    async def plan(self, most=10) -> Plan:
        return Planner(await read_cluster(self.api), Policy.BINPACK, most).plan()


def told(plan):
    """Who gets in where, and who leaves whither."""
    return [(step.pod, step.node, [(each.pod, each.fits) for each in step.evictions]) for step in plan.steps]
