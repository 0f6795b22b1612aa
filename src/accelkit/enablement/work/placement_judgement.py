"""Evaluation of kube-scheduler and the extender, based on the placement of a check pod."""

from __future__ import annotations

import re
from typing import Final

from accelkit.enablement.work.findings import Finding, failed, passed, unknown
from accelkit.enablement.work.node_view import CheckedNode
from accelkit.enablement.work.pod_board import PodSnapshot
from accelkit.enablement.work.pods import CHECK, CheckPod
from accelkit.enablement.work.room_check import has_no_free_share
from accelkit.enablement.work.sides import View
from accelkit.errors import AssignmentError, ServiceError
from accelkit.inspection.inspection import InspectedNode, ShareView
from accelkit.model.assignment import Assignment, Share, decode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.units import format_bytes

# Messages from kube-scheduler that indicate a lack of host resources, not of cards.
_HOST_FULL: Final = re.compile(r"Too many pods|Insufficient (cpu|memory|ephemeral-storage|pods)\b")


def judge_placement(node: CheckedNode, snapshot: PodSnapshot, counted: InspectedNode | None) -> Finding | None:
    """Return the fault in the placement of a pod; None if the pod was placed with a readable assignment.

    Args:
        node: the node to check.
        snapshot: the last observed state of the pod.
        counted: the node's entry in the ledger; None if the entry is unknown.
    """
    pod = snapshot.pod
    if pod is None or (snapshot.gone and not pod.spec.node_name):
        return unknown("PodGone", f"the check pod of {node.name} was deleted before it was placed")
    if not pod.spec.node_name:
        return _judge_waiting(node, pod, counted)
    if snapshot.bound_with is None:
        return failed(
            "NoAssignment", f"the pod was bound to {node.name} without the annotation {ASSIGNMENT_ANNOTATION}"
        )
    try:
        read_share(pod, snapshot)
    except AssignmentError as exc:
        return failed("AssignmentUnreadable", f"the assignment of the pod on {node.name} is invalid: {exc.message}")
    return None


def judge_ledger(node: CheckedNode, pod: CheckPod, share: Share, view: View) -> Finding:
    """Compare the ledger's entry for a placed pod with the pod's assignment."""
    if isinstance(view.counted, ServiceError):
        return unknown("LedgerUnread", f"the ledger cannot be compared: {view.counted}")
    found = _find_counted(view.counted.get(node.name), pod)
    assigned = f"{format_bytes(share.memory_bytes)} of {share.card}"
    if found != {share.card: share.memory_bytes}:
        counts = ", ".join(f"{format_bytes(size)} of {card}" for card, size in sorted(found.items())) or "nothing"
        return failed("LedgerDiffers", f"the pod on {node.name} is assigned {assigned}; the ledger counts {counts}")
    return passed(f"kube-scheduler placed a pod with {assigned}, and the ledger counts it")


def read_share(pod: CheckPod, snapshot: PodSnapshot) -> Share:
    """Return the only share of the working container, including any correction by the node agent.

    Raises:
        AssignmentError: the assignment is unreadable, or does not consist of one share of one card.
    """
    text = (pod.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION) or snapshot.bound_with or ""
    assignment: Assignment = decode_assignment(text)
    shares = assignment.containers.get(CHECK, ())
    if len(shares) != 1 or shares[0].whole:
        raise AssignmentError(
            f"it assigns container {CHECK} {len(shares)} shares, instead of one share of a card's memory"
        )
    return shares[0]


def _judge_waiting(node: CheckedNode, pod: CheckPod, counted: InspectedNode | None) -> Finding:
    condition = pod.scheduling
    if condition is None or condition.status != "False":
        return unknown("NotTried", f"no scheduler has tried to place the check pod of {node.name}")
    message = condition.message or condition.reason
    words = f"kube-scheduler did not place the check pod of {node.name}: {message}"
    if condition.reason == "SchedulerError":
        return failed("SchedulerError", words)
    if _HOST_FULL.search(condition.message):
        return unknown("HostFull", words)
    if counted is not None and has_no_free_share(node, counted):
        return unknown("NoFreeShare", words)
    return failed("Unschedulable", words)


def _find_counted(node: InspectedNode | None, pod: CheckPod) -> dict[str, int]:
    """Return the amounts that the ledger contains for the working container on each card."""
    return {
        card.id: share.memory_bytes for card in (node.cards if node else ()) for share in card.shares if _is(share, pod)
    }


def _is(share: ShareView, pod: CheckPod) -> bool:
    metadata = pod.metadata
    wanted = (metadata.namespace, metadata.name, metadata.uid, CHECK)
    return (share.namespace, share.pod, share.uid, share.container) == wanted
