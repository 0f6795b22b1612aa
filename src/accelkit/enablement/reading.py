"""Reader of the stage data from the API server, which requests four lists regardless of the number of nodes.

If a list cannot be read, only the results that depend on it are unknown.
"""

from __future__ import annotations

from typing import Final

from accelkit.enablement.facts.node_facts import ClusterFacts
from accelkit.enablement.facts.objects import NodeDetails, OwnPod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.stages.kernel_caches import CACHE_COMPONENT
from accelkit.errors import ApiError, ServiceError
from accelkit.gkm.names import CACHE_NODES, CLUSTER_CACHE_NODES
from accelkit.gkm.objects import CacheNode
from accelkit.install.owned_metadata import read_share_label
from accelkit.install.resource_checks import is_sharing_requested
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_collection_path
from accelkit.model.keys import (
    ADVERTISED_ANNOTATION,
    INVENTORY_ANNOTATION,
    LABELS_ANNOTATION,
    PART_OF_SELECTOR,
    SHARED,
    STAGES_ANNOTATION,
)

_OWN: Final = {"labelSelector": PART_OF_SELECTOR}
_KEPT: Final = (INVENTORY_ANNOTATION, LABELS_ANNOTATION, STAGES_ANNOTATION, ADVERTISED_ANNOTATION)


async def read_cluster(api: ApiClient, namespace: str, named: frozenset[str]) -> ClusterFacts:
    """Return the data of the requested nodes, or of all nodes that are shared or have cards.

    Args:
        api: an open client.
        namespace: accelkit's namespace.
        named: names of the requested nodes; empty for all nodes that are shared or have cards.

    Raises:
        ApiError: the nodes cannot be listed, and no nodes were requested.
        ServiceError: no node is shared, and no nodes were requested.
    """
    nodes, pods = await _list_nodes(api, named), await _list_pods(api, namespace)
    return ClusterFacts(
        namespace=namespace,
        nodes=nodes,
        pods=pods,
        caches=await _list_caches(api, pods),
        named=named,
    )


async def _list_nodes(api: ApiClient, named: frozenset[str]) -> list[NodeDetails] | Unread:
    try:
        listed, _ = await list_all(api, NODES, NodeDetails, trim=_trim)
    except ApiError as exc:
        if not named:
            raise
        return Unread(str(exc))
    if named:
        return [node for node in listed if node.metadata.name in named]
    chosen = [node for node in listed if is_sharing_requested(node)]
    if not any(read_share_label(node) == SHARED for node in chosen):
        raise ServiceError("no node is labelled accelkit.io/share=true", next_step="run site.yml, or specify nodes")
    return chosen


async def _list_pods(api: ApiClient, namespace: str) -> list[OwnPod] | Unread:
    try:
        return (await list_all(api, build_collection_path("v1", "pods", namespace), OwnPod, query=_OWN))[0]
    except ApiError as exc:
        return Unread(str(exc))


async def _list_caches(api: ApiClient, pods: list[OwnPod] | Unread) -> list[CacheNode] | Unread | None:
    found: list[CacheNode] = []
    for path in (CLUSTER_CACHE_NODES, CACHE_NODES):
        try:
            found += (await list_all(api, path, CacheNode))[0]
        except ApiError as exc:
            # Without permission to list a kind, the API server does not report whether the kind is defined.
            used = isinstance(pods, Unread) or any(pod.component == CACHE_COMPONENT for pod in pods)
            if exc.not_found or (exc.forbidden and not used):
                return None
            return Unread(str(exc))
    return found


def _trim(node: NodeDetails) -> None:
    """Remove the annotations from other programs, which may have a size of several megabytes."""
    node.metadata.annotations = {key: text for key, text in (node.metadata.annotations or {}).items() if key in _KEPT}
