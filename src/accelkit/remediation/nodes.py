"""Index of all nodes. Its data determines which nodes the controller must process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from accelkit.model.inventory import read_inventory
from accelkit.model.keys import (
    CORDON_KEY,
    INVENTORY_ANNOTATION,
    REMEDIATION_ANNOTATION,
    REPAIRED_ANNOTATION,
    STAGES_ANNOTATION,
)
from accelkit.model.object_meta import ObjectMeta, is_older
from accelkit.model.stage import read_record as read_stages
from accelkit.remediation.deciding.decision import is_fresh
from accelkit.remediation.deciding.faults import find_fault
from accelkit.remediation.deciding.isolation import NodeCondition, Taint
from accelkit.remediation.deciding.record import read_record
from accelkit.remediation.deciding.views import RemediationNode


class _Info(msgspec.Struct):
    boot_id: str = msgspec.field(name="bootID", default="")


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[NodeCondition] | None = None
    node_info: _Info = msgspec.field(default_factory=_Info)


class _Spec(msgspec.Struct):
    taints: list[Taint] | None = None
    unschedulable: bool = False


class NodeObject(msgspec.Struct):
    """A node from the API server, with only the fields that accelkit reads."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def find_annotation(self, key: str) -> str | None:
        """Return the value of an annotation; None if it is missing."""
        return (self.metadata.annotations or {}).get(key)


def view_node(node: NodeObject) -> RemediationNode:
    """Return the state of a node from its Node object, without its pods and the state of its agent."""
    inventory = read_inventory(node.find_annotation(INVENTORY_ANNOTATION))
    return RemediationNode(
        name=node.metadata.name,
        uid=node.metadata.uid,
        version=node.metadata.resource_version,
        cards=None if inventory is None else inventory.cards,
        record=read_record(node.find_annotation(REMEDIATION_ANNOTATION)),
        cordon=node.find_annotation(CORDON_KEY),
        repaired=node.find_annotation(REPAIRED_ANNOTATION),
        taints=tuple(node.spec.taints or ()),
        conditions=tuple(node.status.conditions or ()),
        ready=any((each.type, each.status) == ("Ready", "True") for each in node.status.conditions or ()),
        unschedulable=node.spec.unschedulable,
        stages=read_stages(node.find_annotation(STAGES_ANNOTATION)),
        boot_id=node.status.node_info.boot_id,
    )


@dataclass(frozen=True)
class NodeSummary:
    """The data about a node in the index.

    Attributes:
        version: the resource version of the node.
        has_cards: whether the node is known to have cards.
        fresh: the faults for which no action has been taken yet, as pairs of card ID and fault identity.
        recorded: whether the node has a record, even if the record is unreadable.
        active: whether cards of the node are under remediation. It is also true if the record is unreadable.
        called: the number of cards for which an administrator was called.
    """

    name: str
    version: str
    has_cards: bool
    fresh: frozenset[tuple[str, str]]
    recorded: bool
    active: bool
    called: int = 0


def summarise(node: NodeObject) -> NodeSummary:
    """Return the summary of a node."""
    text = node.find_annotation(REMEDIATION_ANNOTATION)
    record = read_record(text)
    inventory = read_inventory(node.find_annotation(INVENTORY_ANNOTATION))
    cards = () if inventory is None else inventory.cards
    fresh = frozenset[tuple[str, str]]()
    if record is not None:
        found = ((card.id, find_fault(card)) for card in cards if is_fresh(card, record))
        fresh = frozenset((name, fault.identity) for name, fault in found if fault is not None)
    meta = node.metadata
    active = record is None or bool(record.cards)
    called = 0 if record is None else sum(card.late for card in record.cards.values())
    return NodeSummary(meta.name, meta.resource_version, bool(cards), fresh, text is not None, active, called)


class NodeIndex:
    """Index of all nodes, built from lists, watch events, and the responses to writes of this service."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeSummary] = {}

    def list_all(self) -> list[NodeSummary]:
        """Return the summaries of all nodes, sorted by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    def replace(self, nodes: Iterable[NodeObject]) -> None:
        """Replace the content of the index with a complete list."""
        self._nodes = {node.metadata.name: summarise(node) for node in nodes}

    def take_event(self, kind: str, node: NodeObject) -> None:
        """Apply a watch event."""
        if kind == "DELETED":
            self._nodes.pop(node.metadata.name, None)
        else:
            self.take(node)

    def take(self, node: NodeObject) -> None:
        """Store a node, unless the index contains a newer version, because a write returned it before the watch."""
        known = self._nodes.get(node.metadata.name)
        if known is not None and is_older(node.metadata.resource_version, known.version):
            return
        self._nodes[node.metadata.name] = summarise(node)
