"""Reader of nodes with driver-related data."""

from __future__ import annotations

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode, convert_node
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE, list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.kube.views.node import SystemNode
from accelkit.vendors.profiles import load_usable_profiles


async def list_driver_nodes(api: ApiClient) -> list[DriverNode]:
    """Return all nodes, by name.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    found, _ = await list_all(api, NODES, SystemNode)
    profiles = load_usable_profiles().profiles
    return sorted((convert_node(each, profiles) for each in found), key=lambda node: node.name)


async def read_driver_node(api: ApiClient, name: str) -> DriverNode:
    """Return one node.

    Raises:
        ApiError: the API server rejected the request or did not respond, or the Node object is unreadable.
    """
    try:
        node = msgspec.json.decode(await api.get(build_node_path(name)), type=SystemNode)
    except UNREADABLE as exc:
        raise ApiError(f"cannot decode node {name}: {exc}") from exc
    return convert_node(node, load_usable_profiles().profiles)
