"""Data of a Node object that a check needs: the state, the cards, and the resources that the node offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelkit.enablement.facts.node_state import build_state, read_inventory
from accelkit.errors import InventoryError, QuantityError
from accelkit.install.owned_metadata import read_share_label
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.keys import ADVERTISED_ANNOTATION, SHARED, STAGES_ANNOTATION
from accelkit.model.pod import Node
from accelkit.model.stage import NodeState
from accelkit.model.units import parse_quantity
from accelkit.vendors.dialects import load_own_dialect, load_usable_dialects


@dataclass(frozen=True)
class CheckedNode:
    """A node to check.

    Attributes:
        state: the state for which the check results are valid.
        shared: whether the node's label enables sharing.
        resource: the extended resource for memory that the node's agent advertises.
        capacity: the node's capacity of that resource; None if the kubelet does not report the capacity.
        allocatable: the allocatable amount of that resource.
        unit_bytes: the size of one unit of the resource, in bytes; 0 if the size is unknown.
        cards: the cards by ID.
        problem: the reason why the cards are unknown; empty if the cards are known.
        recorded: the annotation with the stage results; None if the annotation is missing.
    """

    name: str
    state: NodeState
    resource: str
    shared: bool = False
    capacity: int | None = None
    allocatable: int = 0
    unit_bytes: int = 0
    cards: Mapping[str, Card] = field(default_factory=dict)
    problem: str = ""
    recorded: str | None = None


async def list_checked_nodes(api: ApiClient) -> dict[str, CheckedNode]:
    """Return all nodes by name, from one list.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    nodes, _ = await list_all(api, NODES, Node)
    return {node.metadata.name: view_node(node) for node in nodes}


def view_node(node: Node) -> CheckedNode:
    """Return the data of a node that a check needs."""
    read = read_inventory(node)
    inventory = read if isinstance(read, Inventory) else None
    unknown = read.message if isinstance(read, InventoryError) else "its agent has not published an inventory"
    resource = find_resource(node.find_annotation(ADVERTISED_ANNOTATION) or "")
    return CheckedNode(
        name=node.metadata.name,
        state=build_state(node, read),
        shared=read_share_label(node) == SHARED,
        resource=resource,
        capacity=_read_amount(node.status.capacity, resource),
        allocatable=_read_amount(node.status.allocatable, resource) or 0,
        unit_bytes=inventory.unit_bytes if inventory else 0,
        cards={card.id: card for card in inventory.cards} if inventory else {},
        problem="" if inventory else unknown,
        recorded=node.find_annotation(STAGES_ANNOTATION),
    )


def find_resource(advertised: str) -> str:
    """Return the extended resource that pods use to request a node's card memory.

    Args:
        advertised: the resources that the node's agent advertises, separated by commas; empty for accelkit's own
            resources.
    """
    named = {name.strip() for name in advertised.split(",")}
    memory = (dialect.resources.memory for dialect in load_usable_dialects() if dialect.advertised)
    return next((name for name in memory if name and name in named), load_own_dialect("native").resources.memory)


def _read_amount(amounts: Mapping[str, str] | None, resource: str) -> int | None:
    text = (amounts or {}).get(resource)
    try:
        return None if text is None else parse_quantity(text)
    except QuantityError:
        return None
