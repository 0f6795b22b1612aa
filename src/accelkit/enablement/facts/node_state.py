"""The state of a node for which results of checks hold: its boot, kernel, drivers and cards."""

from __future__ import annotations

import hashlib
from typing import Final

from accelkit.enablement.facts.seen_objects import SeenNode
from accelkit.errors import InventoryError
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, decode_inventory
from accelkit.model.stage import NodeState

_DIGITS: Final = 16


def read_inventory(node: SeenNode) -> Inventory | InventoryError | None:
    """Return a node's inventory, why it cannot be read, or None where there is none."""
    text = node.find_annotation(INVENTORY_ANNOTATION)
    if text is None:
        return None
    try:
        return decode_inventory(text)
    except InventoryError as exc:
        return exc


def state_of(node: SeenNode) -> NodeState:
    """Return the state that a node is in now; what is not known of it is empty."""
    return build_state(node, read_inventory(node))


def build_state(node: SeenNode, inventory: Inventory | InventoryError | None) -> NodeState:
    """Return the state of a node whose inventory has been read."""
    info = node.status.node_info
    if not isinstance(inventory, Inventory):
        return NodeState(boot_id=info.boot_id, kernel=info.kernel_version)
    cards = "\n".join(sorted(card.id for card in inventory.cards))
    return NodeState(
        boot_id=info.boot_id,
        kernel=info.kernel_version,
        drivers=",".join(sorted({card.driver_version for card in inventory.cards if card.driver_version})),
        cards=hashlib.sha256(cards.encode()).hexdigest()[:_DIGITS],
    )
