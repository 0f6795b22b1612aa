"""Reader for a node's cards in the inventory that its agent published."""

from __future__ import annotations

import msgspec

from accelkit.errors import ApiError, InventoryError
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.kube.views.node import SystemNode
from accelkit.model.inventory import decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

_node = msgspec.json.Decoder(SystemNode)


async def read_node(
    api: ApiClient, name: str, *, driver_version: str | None = None, driver_cuda_version: str | None = None
) -> NodeHardware:
    """Return the facts about a node against which a cache is checked. Without an inventory, the cards are unknown.

    Args:
        api: the client of the node's cluster.
        name: the name of the node.
        driver_version: the version of the node's NVIDIA driver, which overrides the inventory and the labels.
        driver_cuda_version: the newest CUDA version that this driver supports.

    Raises:
        ApiError: the node cannot be read.
        InventoryError: the inventory of the node is invalid.
    """
    try:
        node = _node.decode(await api.get(build_node_path(name)))
    except msgspec.DecodeError as exc:
        raise ApiError(f"cannot read node {name}: {exc}") from exc
    architecture = node.status.node_info.architecture or None
    text = (node.metadata.annotations or {}).get(INVENTORY_ANNOTATION)
    if text is None:
        return NodeHardware(cpu_architecture=architecture)
    try:
        cards = decode_inventory(text).cards
    except InventoryError as exc:
        raise InventoryError(f"cannot use the inventory of node {name}: {exc}") from exc
    return NodeHardware.from_inventory(
        cards,
        cpu_architecture=architecture,
        labels=node.metadata.labels,
        driver_version=driver_version,
        cuda_version=driver_cuda_version,
    )
