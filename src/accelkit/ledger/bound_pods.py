"""Bound pods in the ledger, with the valid parts of their assignments.

Users can write the annotation that contains an assignment. Therefore, only its cards are accepted, and the amounts are
computed from the limits. A bound pod that requests cards but has no valid assignment is charged conservatively. All
bound pods are stored, because the cards and units of a node may become known later.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import msgspec

from accelkit.errors import AssignmentError, RequestError
from accelkit.ledger.holding import ShareStage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment
from accelkit.model.inventory import Inventory, find_unit
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE
from accelkit.reporting import OnceReporter
from accelkit.texts import shorten
from accelkit.vendors.checked_assignments import check_assignment, describe_difference, list_compute
from accelkit.vendors.foreign_assignments import read_foreign_assignment
from accelkit.vendors.pod_reading import CardPod

log = logging.getLogger(__name__)

DEFAULT_UNIT_BYTES = 2**30
# The charge for a pod whose limits accelkit cannot read: all amounts of the node, because the kubelet may admit the
# pod.
_EVERYTHING = PodRequest(
    (
        ContainerRequest("", Kind.APP, 1, memory_bytes=MAX_AMOUNT, compute=WHOLE_COMPUTE),
        ContainerRequest("", Kind.APP, 1, whole=True),
    )
)


class _Entered(msgspec.Struct, frozen=True, gc=False):
    """A pod, with the inventory of its node and the valid part of its assignment from the most recent check."""

    pod: CardPod
    inventory: Inventory | None
    valid: Assignment | None


class BoundPods:
    """The bound pods with cards, by node.

    Args:
        ledger: the ledger that is updated with the pods.
        errors: the reporter for unreadable pods.
    """

    def __init__(self, ledger: Ledger, errors: OnceReporter) -> None:
        self._ledger = ledger
        self._errors = errors
        self._by_node: dict[str, dict[str, _Entered]] = {}
        # The compute on each card, by container, when the pod was first read. Later changes to the annotation do not
        # affect it.
        self._compute: dict[str, Mapping[str, int]] = {}
        self._unassigned = OnceReporter(log)
        self._invalid = OnceReporter(log)

    @property
    def invalid_assignments(self) -> int:
        """The number of pods whose assignment is at least partially invalid."""
        return self._invalid.count

    def list_pods(self, node: str) -> list[CardPod]:
        """Return the readable pods of a node."""
        return [entered.pod for entered in self._by_node.get(node, {}).values()]

    def put(self, pod: CardPod, stage: ShareStage) -> None:
        """Add or update a pod that requests cards."""
        try:
            self._put(pod, stage)
        except Exception as exc:  # noqa: BLE001 - one pod must not end the service
            self.put_unreadable(pod.ref, pod.node, exc)

    def put_unreadable(self, pod: PodRef, node: str, error: Exception | None = None) -> None:
        """Log the error of an unreadable pod, and charge the pod with all amounts of its node."""
        if error is not None:
            self._errors.report(pod.uid, f"cannot read pod {pod}", error=error)
        self._ledger.confirm_unassigned(UnassignedPod(pod, node, _EVERYTHING, "it cannot be read"))

    def reread(self, node: str) -> None:
        """Process the pods of a node again after the node's cards or units have changed."""
        for uid, each in list(self._by_node.get(node, {}).items()):
            held = self._ledger.find_holding(uid)
            # The result of a GET may still be newer than the next list.
            self.put(
                each.pod,
                ShareStage.BOUND if held is not None and held.stage is ShareStage.BOUND else ShareStage.CONFIRMED,
            )

    def end(self, node: str, uid: str) -> None:
        """Remove a pod that no longer uses cards."""
        self._compute.pop(uid, None)
        if (pods := self._by_node.get(node)) is not None:
            pods.pop(uid, None)
            if not pods:
                del self._by_node[node]
        self._ledger.release(uid)

    def keep(self, uids: Collection[str]) -> None:
        """Remove all pods except for the pods with these UIDs. The ledger does not change."""
        for node, pods in list(self._by_node.items()):
            for uid in pods.keys() - uids:
                del pods[uid]
            if not pods:
                del self._by_node[node]
        for uid in self._compute.keys() - uids:
            del self._compute[uid]

    def _put(self, pod: CardPod, stage: ShareStage) -> None:
        uid = pod.ref.uid
        pods = self._by_node.setdefault(pod.node, {})
        entry = self._ledger.find_node(pod.node)
        inventory = entry.inventory if entry else None
        entered = pods.get(uid)
        # Most events for a running pod do not change its charge.
        if entered is None or entered.inventory is not inventory or entered.pod != pod or entered.valid is None:
            # Store the pod before its assignment is checked, so that it is not lost if the check fails.
            pods[uid] = _Entered(pod, inventory, None)
            pods[uid] = entered = _Entered(pod, inventory, self._validate(pod, inventory))
        if entered.valid is not None:
            self._ledger.confirm(pod.ref, pod.node, entered.valid, pod.order, stage, labels=pod.labels)

    def _validate(self, pod: CardPod, inventory: Inventory | None) -> Assignment | None:
        """Return the valid part of a pod's assignment; None if the pod is charged conservatively or has no cards."""
        uid, unit_bytes = pod.ref.uid, self._find_unit(inventory, pod)
        try:
            written = _find_written(pod, inventory, unit_bytes)
            if written is None:
                self._put_unassigned(pod, unit_bytes, "it has no assignment")
                return None
            capacities = None if inventory is None else {card.id: card.capacity_bytes for card in inventory.cards}
            valid = check_assignment(pod, written, capacities, unit_bytes, self._find_compute(uid))
        except AssignmentError as exc:
            self._invalid.report(uid, f"rejected assignment pod={pod.ref} node={pod.node} reason={exc}")
            self._put_unassigned(pod, unit_bytes, str(exc))
            return None
        if not valid.containers:
            self._ledger.release(uid)
            return None
        self._compute.setdefault(uid, list_compute(valid))
        if difference := describe_difference(written, valid):
            self._invalid.report(uid, f"rejected part of assignment pod={pod.ref} node={pod.node} reason={difference}")
        # The valid part usually equals the whole assignment, so store only one object.
        return written if valid == written else valid

    def _find_unit(self, inventory: Inventory | None, pod: CardPod) -> int:
        """Return the unit of the pod's devices if its node is known; otherwise, return the cluster's unit."""
        if inventory is None:
            return self._ledger.unit_bytes or DEFAULT_UNIT_BYTES
        return find_unit(inventory.unit_bytes, inventory.former_units, pod.started_at)

    def _find_compute(self, uid: str) -> Mapping[str, int] | None:
        if (known := self._compute.get(uid)) is not None:
            return known
        held = self._ledger.find_holding(uid)
        return None if held is None else list_compute(held.assignment)

    def _put_unassigned(self, pod: CardPod, unit_bytes: int, problem: str) -> None:
        try:
            request = pod.read_request(unit_bytes)
        except RequestError as exc:
            # Another scheduler bound the pod although accelkit rejects its request. The kubelet uses only the limits.
            request, problem = _read_limits(pod, unit_bytes), str(exc)
        if request is None:
            self._ledger.release(pod.ref.uid)
            return
        if (known := self._find_compute(pod.ref.uid)) is not None:
            request = PodRequest(
                tuple(msgspec.structs.replace(c, compute=known.get(c.container, 0)) for c in request.containers)
            )
            self._compute.setdefault(pod.ref.uid, known)
        self._unassigned.report(
            pod.ref.uid, f"charged pod conservatively pod={pod.ref} node={pod.node} reason={problem}"
        )
        self._ledger.confirm_unassigned(UnassignedPod(pod.ref, pod.node, request, shorten(problem), pod.labels))


def _find_written(pod: CardPod, inventory: Inventory | None, unit_bytes: int) -> Assignment | None:
    """Return a bound pod's assignment from accelkit's annotation or, if missing, from another system's annotations.

    Return None if the pod does not have an assignment.

    Raises:
        AssignmentError: the assignment is unreadable or invalid.
    """
    if isinstance(pod.assignment, Assignment):
        return pod.assignment
    if pod.assignment is not None:
        raise AssignmentError(pod.assignment.message)
    return None if inventory is None else read_foreign_assignment(pod, inventory.cards, unit_bytes)


def _read_limits(pod: CardPod, unit_bytes: int) -> PodRequest | None:
    try:
        return pod.read_request_by_limits(unit_bytes)
    except RequestError:
        return _EVERYTHING
