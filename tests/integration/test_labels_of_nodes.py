"""The labels of a node on a real API server: written by its agent, or asked of Node Feature Discovery."""

from __future__ import annotations

import json

import pytest
from conftest import Cluster
from impersonation import is_done
from support import waiting
from test_node_agent import agent_of

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.model.card import Card
from accelkit.model.inventory import decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.node.labels import NodeLabels
from accelkit.node.labels.node_labels import NFD_API

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

FEATURES = f"/apis/{NFD_API}/namespaces/accelkit/nodefeatures"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = {
    "kind": "NodeFeature",
    "plural": "nodefeatures",
    "singular": "nodefeature",
    "listKind": "NodeFeatureList",
}
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
# The part of Node Feature Discovery's own definition that we use.
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "nodefeatures.nfd.k8s-sigs.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
    },
    "spec": {
        "group": "nfd.k8s-sigs.io",
        "scope": "Namespaced",
        "names": NAMES,
        "versions": [
            {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}},
        ],
    },
}


async def until(accept) -> None:
    # An agent that could not write labels, since the node was changed just then, tries again after a minute.
    await waiting.until(accept, seconds=90, every=0.2)


async def labelled(cluster: Cluster, node: str, cards: str) -> bool:
    metadata = (await cluster.get(f"/api/v1/nodes/{node}"))["metadata"]
    return metadata["labels"].get("accelkit.io/cards.count") == cards


async def served(api: ApiClient) -> bool:
    try:
        await api.get(FEATURES)
    except ApiError as exc:
        # Its agent may not list them; that it is told so says that they are there.
        return exc.status == 403
    return True


async def test_agent_labels_node_and_records_labels(cluster):
    await until(lambda: labelled(cluster, "node-1", "8"))
    node = await cluster.get("/api/v1/nodes/node-1")
    recorded = json.loads(node["metadata"]["annotations"]["accelkit.io/labels"])
    assert "accelkit.io/cards.simulated.model" in recorded
    assert recorded.items() <= node["metadata"]["labels"].items()


async def test_agent_creates_node_feature_only_for_own_node(cluster, tmp_path):
    await until(lambda: labelled(cluster, "node-2", "4"))
    before = (await cluster.get("/api/v1/nodes/node-2"))["metadata"]["labels"]
    await cluster.api.post(DEFINITIONS, DEFINITION)
    try:
        await until(lambda: served(cluster.api))
        async with agent_of(cluster, "node-2") as agent:
            await until(lambda: is_done(agent.get(f"/apis/{NFD_API}")))
            (tmp_path / "proc/sys/kernel").mkdir(parents=True)
            (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0\n")
            written = {}

            async def asked() -> bool:
                # The node's own agent may write its labels at the same time, which know no kernel.
                await NodeLabels(agent, "node-2", "accelkit", tmp_path).update([Card("a", "simulated", "m", 2**30)])
                written.update(await cluster.get(f"{FEATURES}/node-2"))
                return written["spec"]["labels"].get("feature.node.kubernetes.io/kernel-version.major") == "6"

            await until(asked)
            assert written["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"] == "node-2"
            metadata = {"name": "node-1", "labels": written["metadata"]["labels"]}
            with pytest.raises(ApiError, match="change only nodefeatures of its own node"):
                await agent.post(FEATURES, {**written, "metadata": metadata})
    finally:
        await cluster.api.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")
        await until(lambda: forgotten(cluster))
        await until(lambda: restored(cluster, before))


async def forgotten(cluster: Cluster) -> bool:
    groups = (await cluster.get("/apis"))["groups"]
    return NFD_API not in [version["groupVersion"] for group in groups for version in group["versions"]]


async def restored(cluster: Cluster, labels: dict[str, str]) -> bool:
    """Label node-2 as its own agent would within a minute; return whether it has these labels."""
    metadata = (await cluster.get("/api/v1/nodes/node-2"))["metadata"]
    cards = decode_inventory(metadata["annotations"][INVENTORY_ANNOTATION]).cards
    async with agent_of(cluster, "node-2") as agent:
        await NodeLabels(agent, "node-2", "accelkit", cluster.sandbox.paths.nodes / "node-2").update(cards)
    return (await cluster.get("/api/v1/nodes/node-2"))["metadata"]["labels"] == labels
