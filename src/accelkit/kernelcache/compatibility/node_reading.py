"""Reads the cards of a node from the inventory that its agent published."""

from __future__ import annotations

import msgspec

from accelkit.errors import ApiError, InventoryError
from accelkit.kernelcache.compatibility.node_facts import NodeFacts
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.inventory import decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta


class _Info(msgspec.Struct, frozen=True):
    architecture: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    node_info: _Info = _Info()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


_node = msgspec.json.Decoder(_Node)


async def read_node(
    api: ApiClient, name: str, *, driver_version: str | None = None, driver_cuda_version: str | None = None
) -> NodeFacts:
    """Read what a cache is judged against. A node without an inventory has unknown cards, not none.

    Args:
        api: of the node's cluster.
        name: of the node.
        driver_version: of its NVIDIA driver, whatever the node says.
        driver_cuda_version: the newest CUDA that this driver supports.

    Raises:
        ApiError: the node cannot be read.
        InventoryError: its inventory cannot be used.
    """
    try:
        node = _node.decode(await api.get(build_node_path(name)))
    except msgspec.DecodeError as exc:
        raise ApiError(f"node {name} cannot be read: {exc}") from exc
    architecture = node.status.node_info.architecture or None
    text = (node.metadata.annotations or {}).get(INVENTORY_ANNOTATION)
    if text is None:
        return NodeFacts(cpu_architecture=architecture)
    try:
        cards = decode_inventory(text).cards
    except InventoryError as exc:
        raise InventoryError(f"the inventory of node {name} cannot be used: {exc}") from exc
    return NodeFacts.from_inventory(
        cards,
        cpu_architecture=architecture,
        labels=node.metadata.labels,
        driver_version=driver_version,
        cuda_version=driver_cuda_version,
    )
