"""Judgement of whether a node offers a share for a check pod, before the pod is created."""

from __future__ import annotations

from accelkit.enablement.work.findings import Finding, failed, unknown
from accelkit.enablement.work.node_view import CheckedNode
from accelkit.inspection.inspection import NodeView
from accelkit.model.card import Health


def judge_offer(node: CheckedNode, counted: NodeView | None) -> Finding | None:
    """Return why a check pod would be pointless on a node; None if it can get a share there.

    Allocatable resources decide, because capacity includes unhealthy devices.

    Args:
        node: the node.
        counted: the ledger's view of the node; None if it is unknown.
    """
    if node.problem:
        return unknown("CardsUnknown", f"the cards of {node.name} are unknown: {node.problem}")
    if node.capacity is None:
        return failed("NotAdvertised", f"the kubelet of {node.name} offers no {node.resource}")
    if node.allocatable < 1:
        return failed("NothingAllocatable", f"of {node.capacity} {node.resource} of {node.name} none is allocatable")
    if counted is not None and has_no_free_share(node, counted):
        return unknown("NoFreeShare", f"no card of {node.name} has one unit of {node.resource} free")
    return None


def has_no_free_share(node: CheckedNode, counted: NodeView) -> bool:
    """Return whether, according to the ledger, no card has room for one more smallest share."""
    unit_bytes = counted.unit_bytes or node.unit_bytes
    return not any(
        card.known
        and not card.whole
        and not card.cordoned
        and card.health != Health.UNHEALTHY.value
        and card.free_bytes >= unit_bytes
        for card in counted.cards
    )
