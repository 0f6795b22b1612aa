"""Node state for which check results are valid: the boot, kernel, drivers and cards of the node."""

from __future__ import annotations

from accelkit.errors import InventoryError
from accelkit.model.inventory import Inventory, decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.node_state import describe_state
from accelkit.model.pod import Node
from accelkit.model.stage import NodeState


def read_inventory(node: Node) -> Inventory | InventoryError | None:
    """Return a node's inventory, or the error if the inventory is unreadable; None if it is missing."""
    text = node.find_annotation(INVENTORY_ANNOTATION)
    if text is None:
        return None
    try:
        return decode_inventory(text)
    except InventoryError as exc:
        return exc


def build_state(node: Node, inventory: Inventory | InventoryError | None) -> NodeState:
    """Return the current state of a node with this inventory; unknown fields are empty."""
    info, cards = node.status.node_info, inventory.cards if isinstance(inventory, Inventory) else None
    return describe_state(info.boot_id, info.kernel_version, cards)
