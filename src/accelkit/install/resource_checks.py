"""Checks for the cards of nodes, and for the resources that shared nodes offer to pods."""

from __future__ import annotations

from collections.abc import Collection

from accelkit.errors import InventoryError, ServiceError
from accelkit.install.owned_metadata import read_share_label
from accelkit.model.inventory import Inventory, decode_inventory, read_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.managed_resources import MANAGED_RESOURCES_NAME
from accelkit.model.pod import Node
from accelkit.model.units import format_unit
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.profiles import is_plugin_resource, list_presence_labels


def find_offer_problem(node: Node, unit_bytes: int | None, dialect: Dialect) -> str | None:
    """Return the reason why a shared node does not offer its cards yet; None if it offers them.

    Raises:
        ServiceError: the agent reports that it cannot apply `unit_bytes`, so waiting would have no effect.
    """
    text = node.find_annotation(INVENTORY_ANNOTATION)
    if text is None:
        return "its agent has not published an inventory"
    try:
        inventory = decode_inventory(text)
    except InventoryError as exc:
        return str(exc)
    if unit_bytes not in (None, inventory.configured_unit_bytes):
        return f"its agent still uses the unit {format_unit(inventory.configured_unit_bytes)}"
    if inventory.problem and unit_bytes is not None:
        raise ServiceError(f"node {node.metadata.name}: {inventory.problem}")
    if not inventory.cards:
        return "its agent found no card"
    return _find_absent(node, inventory, dialect)


def find_library_problems(node: Node) -> tuple[str, ...]:
    """Return the problems that a node's agent reports about the vendors' libraries, as sentences."""
    inventory = read_inventory(node.find_annotation(INVENTORY_ANNOTATION))
    return () if inventory is None else inventory.library_problems


def find_other_offers(node: Node, counted: Collection[str] = ()) -> list[str]:
    """Return the resources that other device plugins offer for a node's cards, such as `nvidia.com/gpu: 8`, sorted.

    Args:
        node: a node.
        counted: the resources to ignore, because the extender charges the pods that request them.
    """
    allocatable = node.status.allocatable or {}
    offered = sorted(name for name, amount in allocatable.items() if amount != "0" and name not in counted)
    return [f"{name}: {allocatable[name]}" for name in offered if is_plugin_resource(name)]


def is_sharing_requested(node: Node) -> bool:
    """Return whether a node's cards are shared if the user does not specify nodes."""
    label = read_share_label(node)
    return label != "false" and (label is not None or has_cards(node))


def has_cards(node: Node) -> bool:
    """Return whether a label or an inventory indicates that a node has cards."""
    labels = node.metadata.labels or {}
    if any(labels.get(label) == "true" for label in list_presence_labels()):
        return True
    inventory = read_inventory(node.find_annotation(INVENTORY_ANNOTATION))
    return inventory is not None and bool(inventory.cards)


def _find_absent(node: Node, inventory: Inventory, dialect: Dialect) -> str | None:
    allocatable = node.status.allocatable or {}
    resources = (dialect.resources.memory, dialect.resources.cards)
    absent = [name for name in resources if allocatable.get(name, "0") == "0"]
    withheld = set(inventory.withheld or ())
    if held_back := [name for name in resources if name in withheld]:
        return (
            f"its agent withholds {' and '.join(held_back)}, because the ConfigMap {MANAGED_RESOURCES_NAME} does not "
            "list them: not every kube-scheduler calls the extender for them"
        )
    if dialect.resources.memory in absent and all(card.memory_bytes is None for card in inventory.cards):
        return _describe_unknown_memory(inventory)
    return f"its kubelet has no allocatable {' and '.join(absent)}" if absent else None


def _describe_unknown_memory(inventory: Inventory) -> str:
    first, *more = inventory.cards
    others = f" and {len(more)} more" if more else ""
    cause = "; ".join(inventory.library_problems) or "neither its driver nor the table of models states it"
    return (
        f"card {first.id} ({first.model}){others} of unknown memory: {cause}; fix the cause, or list the cards in "
        "/etc/accelkit/cards.yaml on the node"
    )
