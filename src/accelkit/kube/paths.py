"""Paths of collections and objects on the API server.

Names are quoted in paths, so that no name can point to another object.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"


def build_group_path(api_version: str) -> str:
    """Return the path below which the API server serves the kinds of `v1` or of `GROUP/VERSION`."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def build_collection_path(api_version: str, plural: str, namespace: str | None = None) -> str:
    """Return the path of a kind's objects: those of a namespace, or all objects of the cluster."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{build_group_path(api_version)}{place}/{plural}"


def build_object_path(collection_path: str, name: str) -> str:
    """Return the path of one object of a collection."""
    # Names of RBAC objects often contain colons, which paths allow unquoted.
    return f"{collection_path}/{quote(name, safe=':')}"


def build_node_path(name: str) -> str:
    """Return the path of a Node."""
    return build_object_path(NODES, name)


def build_pod_path(namespace: str, name: str) -> str:
    """Return the path of a Pod."""
    return build_object_path(build_collection_path("v1", "pods", namespace), name)


def build_config_maps_path(namespace: str) -> str:
    """Return the path of a namespace's ConfigMaps."""
    return build_collection_path("v1", "configmaps", namespace)


def build_secrets_path(namespace: str) -> str:
    """Return the path of a namespace's Secrets."""
    return build_collection_path("v1", "secrets", namespace)


def build_leases_path(namespace: str) -> str:
    """Return the path of a namespace's Leases."""
    return build_collection_path("coordination.k8s.io/v1", "leases", namespace)
