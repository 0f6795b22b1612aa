"""An API server in memory with nodes, their agents, and strategic merge patches of a node's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from fake_api.watches import WatchedApi
from remediation_cluster import make_card

from accelkit.kube.client import PatchKind
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.observed_allocations import (
    ALLOCATIONS_KEY,
    Allocations,
    HeldDevices,
    HeldPod,
    encode_allocations,
)

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
CONFIG_MAPS = "/api/v1/namespaces/accelkit/configmaps"
READY = {"type": "Ready", "status": "True"}


class NodeApi(WatchedApi):
    """Merges conditions by their type."""

    async def patch(
        self, path: str, body: Any, *, kind: PatchKind = "merge", query: Mapping[str, str] | None = None
    ) -> bytes:
        if kind != "strategic":
            return await super().patch(path, body, kind=kind, query=query)
        node = self.objects[path.removesuffix("/status")]
        kept = {each["type"]: each for each in node["status"]["conditions"]}
        for each in body["status"]["conditions"]:
            if each.get("$patch") == "delete":
                kept.pop(each["type"], None)
            else:
                kept[each["type"]] = {**kept.get(each["type"], {}), **each}
        merged = {**body, "status": {"conditions": list(kept.values())}}
        return await super().patch(path, merged, kind="merge", query=query)

    def put_node(self, name: str, *cards: Card, **annotations: str) -> dict[str, Any]:
        """Put a node with healthy or given cards, its ready agent, and what that says of its kubelet."""
        inventory = encode_inventory(Inventory(1 << 30, cards or (make_card("GPU-0"), make_card("GPU-1"))))
        marks = {INVENTORY_ANNOTATION: inventory} | {f"accelkit.io/{key}": value for key, value in annotations.items()}
        node = {
            "metadata": {"name": name, "uid": f"uid-{name}", "annotations": marks},
            "spec": {},
            "status": {"conditions": [dict(READY)], "nodeInfo": {"bootID": "b"}},
        }
        labels = {"app.kubernetes.io/name": "accelkit-node-agent"}
        agent = {"name": f"agent-{name}", "namespace": "accelkit", "uid": f"agent-{name}", "labels": labels}
        status = {"phase": "Running", "conditions": [dict(READY)]}
        self.store(PODS, {"metadata": agent, "spec": {"nodeName": name, "containers": []}, "status": status})
        self.observe(name)
        return self.store(NODES, node)

    def observe(self, node: str, **cards: str) -> None:
        """Have a node's agent say which pods hold which cards."""
        pods = tuple(HeldPod("a", pod, {"main": HeldDevices({card: 8})}) for pod, card in cards.items())
        data = {ALLOCATIONS_KEY: encode_allocations(Allocations(node, pods))}
        self.store(CONFIG_MAPS, {"metadata": {"name": node, "namespace": "accelkit"}, "data": data})

    def put_pod(self, node: str, name: str, card: str | None, **spec: Any) -> None:
        """Put a pod that holds 8 GiB of a card; of one that nobody named, where that is None."""
        annotations = {}
        if card is not None:
            share = Share(card, 8 << 30)
            annotations["accelkit.io/assignment"] = encode_assignment(Assignment({"main": (share,)}))
        container = {"name": "main", "resources": {"limits": {"accelkit.io/memory": "8"}}}
        metadata = {"name": name, "namespace": "a", "uid": f"uid-{name}", "annotations": annotations}
        whole = {"nodeName": node, "containers": [container], **spec}
        self.store(PODS, {"metadata": metadata, "spec": whole, "status": {"phase": "Running"}})

    def fail_card(self, node: str, card: str, **changes: Any) -> None:
        """Have a node's agent publish another state of a card."""
        annotations = self.objects[f"{NODES}/{node}"]["metadata"]["annotations"]
        inventory = msgspec.json.decode(annotations[INVENTORY_ANNOTATION], type=Inventory)
        cards = tuple(msgspec.structs.replace(each, **changes) if each.id == card else each for each in inventory.cards)
        annotations[INVENTORY_ANNOTATION] = encode_inventory(msgspec.structs.replace(inventory, cards=cards))
