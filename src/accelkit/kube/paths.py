"""API server paths for collections and objects.

Names are quoted in paths, so that a name cannot refer to a different object.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"


def build_group_path(api_version: str) -> str:
    """Return the path prefix of the kinds in an API version: `v1` or `GROUP/VERSION`."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def build_collection_path(api_version: str, plural: str, namespace: str | None = None) -> str:
    """Return the path of the collection for a kind, either in a namespace or in the whole cluster."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{build_group_path(api_version)}{place}/{plural}"


def build_object_path(collection_path: str, name: str) -> str:
    """Return the path of an object in a collection."""
    # Names of RBAC objects often contain colons, which do not have to be quoted in paths.
    return f"{collection_path}/{quote(name, safe=':')}"


def build_node_path(name: str) -> str:
    """Return the path of a Node."""
    return build_object_path(NODES, name)


def build_pod_path(namespace: str, name: str) -> str:
    """Return the path of a Pod."""
    return build_object_path(build_collection_path("v1", "pods", namespace), name)


def build_config_maps_path(namespace: str) -> str:
    """Return the path of the ConfigMaps in a namespace."""
    return build_collection_path("v1", "configmaps", namespace)


def build_secrets_path(namespace: str) -> str:
    """Return the path of the Secrets in a namespace."""
    return build_collection_path("v1", "secrets", namespace)


def build_leases_path(namespace: str) -> str:
    """Return the path of the Leases in a namespace."""
    return build_collection_path("coordination.k8s.io/v1", "leases", namespace)
