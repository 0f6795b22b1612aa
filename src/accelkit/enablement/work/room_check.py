"""Evaluation of whether a node offers a share for a check pod, before the pod is created."""

from __future__ import annotations

from accelkit.enablement.work.findings import Finding, failed, unknown
from accelkit.enablement.work.node_view import CheckedNode
from accelkit.inspection.inspection import InspectedNode
from accelkit.model.card import Health


def judge_offer(node: CheckedNode, counted: InspectedNode | None) -> Finding | None:
    """Return the reason why a check pod cannot get a share on a node; None if the pod can get a share.

    The decision is based on allocatable resources, because the capacity includes unhealthy devices.

    Args:
        node: the node.
        counted: the node's entry in the ledger; None if the entry is unknown.
    """
    if node.problem:
        return unknown("CardsUnknown", f"the cards of {node.name} are unknown: {node.problem}")
    if node.capacity is None:
        return failed("NotAdvertised", f"the kubelet of {node.name} offers no {node.resource}")
    if node.allocatable < 1:
        return failed(
            "NothingAllocatable", f"none of the {node.capacity} {node.resource} of {node.name} are allocatable"
        )
    if counted is not None and has_no_free_share(node, counted):
        return unknown("NoFreeShare", f"no card of {node.name} has a free unit of {node.resource}")
    return None


def has_no_free_share(node: CheckedNode, counted: InspectedNode) -> bool:
    """Return whether, according to the ledger, no card of the node has enough free memory for the smallest share."""
    unit_bytes = counted.unit_bytes or node.unit_bytes
    return not any(
        card.known
        and not card.whole
        and not card.cordoned
        and card.health != Health.UNHEALTHY.value
        and card.free_bytes >= unit_bytes
        for card in counted.cards
    )
