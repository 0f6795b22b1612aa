"""Reader of the version and nodes of a cluster, which an installation requires first."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES
from accelkit.kube.views.api import ServerVersion
from accelkit.model.pod import Node, find_address

# Kubernetes versions before 1.20 use the second label.
_CONTROL_PLANE_LABELS: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class ClusterNode(msgspec.Struct, frozen=True):
    """A node in the cluster.

    Attributes:
        name: the name of the Node object.
        address: the InternalIP of the node. If it has no InternalIP, the host name; empty if it has neither.
        control_plane: whether the node has the label of the control plane.
    """

    name: str
    address: str
    control_plane: bool


class Cluster(msgspec.Struct, frozen=True):
    """A cluster.

    Attributes:
        server: the URL of the API server.
        version: the `gitVersion` of the API server, for example `v1.34.4`.
        nodes: the nodes by name.
    """

    server: str
    version: str
    nodes: tuple[ClusterNode, ...]


async def read_cluster(api: ApiClient) -> Cluster:
    """Read the version of the API server, and its nodes.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    version = msgspec.json.decode(await api.get("/version"), type=ServerVersion)
    nodes, _ = await list_all(api, NODES, Node)
    return Cluster(
        server=api.server,
        version=version.git_version,
        nodes=tuple(sorted(map(_summarize, nodes), key=lambda node: node.name)),
    )


def _summarize(node: Node) -> ClusterNode:
    return ClusterNode(
        name=node.metadata.name,
        address=find_address(node.status.addresses or ()),
        control_plane=any(label in (node.metadata.labels or ()) for label in _CONTROL_PLANE_LABELS),
    )
