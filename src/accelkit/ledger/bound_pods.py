"""Enters bound pods in the ledger with what is believed of their assignments.

An assignment is an annotation that users can write: its cards are believed, its amounts are computed from the limits. A
bound pod that asks for cards without an assignment that can be believed is charged conservatively. All bound pods are
remembered, since what a node's cards and units are may be known later than they are.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import msgspec

from accelkit.errors import AssignmentError, RequestError
from accelkit.ledger.holding import Stage, UnassignedPod
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
# What a pod may hold whose limits make no sense to us, but perhaps to its kubelet: all there is.
_EVERYTHING = PodRequest(
    (
        ContainerRequest("", Kind.APP, 1, memory_bytes=MAX_AMOUNT, compute=WHOLE_COMPUTE),
        ContainerRequest("", Kind.APP, 1, whole=True),
    )
)


class _Entered(msgspec.Struct, frozen=True, gc=False):
    """A pod, the inventory of its node when it was entered, and what was believed of its assignment then."""

    pod: CardPod
    inventory: Inventory | None
    believed: Assignment | None


class BoundPods:
    """The bound pods with cards, by node.

    Args:
        ledger: where they are entered.
        errors: told of those that cannot be.
    """

    def __init__(self, ledger: Ledger, errors: OnceReporter) -> None:
        self._ledger = ledger
        self._errors = errors
        self._by_node: dict[str, dict[str, _Entered]] = {}
        # What each container held of a card's compute when the pod was seen first: no annotation changes it.
        self._compute: dict[str, Mapping[str, int]] = {}
        self._unassigned = OnceReporter(log)
        self._disbelieved = OnceReporter(log)

    @property
    def disbelieved(self) -> int:
        """How many pods had an assignment that is not, or not in all, believed."""
        return self._disbelieved.count

    def list_pods(self, node: str) -> list[CardPod]:
        """Return the pods of a node that can be read."""
        return [entered.pod for entered in self._by_node.get(node, {}).values()]

    def put(self, pod: CardPod, stage: Stage) -> None:
        """Enter a pod that asks for cards, or enter it anew."""
        try:
            self._put(pod, stage)
        except Exception as exc:  # noqa: BLE001 - one pod must not end the service
            self.put_unreadable(pod.ref, pod.node, exc)

    def put_unreadable(self, pod: PodRef, node: str, error: Exception | None = None) -> None:
        """Enter a pod that cannot be read, and tell of the error: it may hold all that its node has."""
        if error is not None:
            self._errors.report(pod.uid, f"pod {pod} cannot be read", error=error)
        self._ledger.confirm_unassigned(UnassignedPod(pod, node, _EVERYTHING, "it cannot be read"))

    def reread(self, node: str) -> None:
        """Enter the pods of a node anew, whose cards or units are not what they were."""
        for uid, each in list(self._by_node.get(node, {}).items()):
            held = self._ledger.find_holding(uid)
            # What a GET showed may still be newer than the next list.
            self.put(each.pod, Stage.BOUND if held is not None and held.stage is Stage.BOUND else Stage.CONFIRMED)

    def end(self, node: str, uid: str) -> None:
        """Forget a pod that holds nothing any more."""
        self._compute.pop(uid, None)
        if (pods := self._by_node.get(node)) is not None:
            pods.pop(uid, None)
            if not pods:
                del self._by_node[node]
        self._ledger.release(uid)

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but these, without a change of the ledger."""
        for node, pods in list(self._by_node.items()):
            for uid in pods.keys() - uids:
                del pods[uid]
            if not pods:
                del self._by_node[node]
        for uid in self._compute.keys() - uids:
            del self._compute[uid]

    def _put(self, pod: CardPod, stage: Stage) -> None:
        uid = pod.ref.uid
        pods = self._by_node.setdefault(pod.node, {})
        entry = self._ledger.find_node(pod.node)
        inventory = entry.inventory if entry else None
        entered = pods.get(uid)
        # Most events of a running pod change nothing for us.
        if entered is None or entered.inventory is not inventory or entered.pod != pod or entered.believed is None:
            # Remembered before it is known what to believe, whatever comes of that.
            pods[uid] = _Entered(pod, inventory, None)
            pods[uid] = entered = _Entered(pod, inventory, self._believe(pod, inventory))
        if entered.believed is not None:
            self._ledger.confirm(pod.ref, pod.node, entered.believed, pod.order, stage, labels=pod.labels)

    def _believe(self, pod: CardPod, inventory: Inventory | None) -> Assignment | None:
        """Return what is believed of a pod's assignment; None where it is charged otherwise, or not at all."""
        uid, unit_bytes = pod.ref.uid, self._find_unit(inventory, pod)
        try:
            written = _find_written(pod, inventory, unit_bytes)
            if written is None:
                self._put_unassigned(pod, unit_bytes, "it has none")
                return None
            capacities = None if inventory is None else {card.id: card.capacity_bytes for card in inventory.cards}
            believed = check_assignment(pod, written, capacities, unit_bytes, self._find_compute(uid))
        except AssignmentError as exc:
            self._disbelieved.report(uid, f"the assignment of pod {pod.ref} on {pod.node} is not believed: {exc}")
            self._put_unassigned(pod, unit_bytes, str(exc))
            return None
        if not believed.containers:
            self._ledger.release(uid)
            return None
        self._compute.setdefault(uid, list_compute(believed))
        if difference := describe_difference(written, believed):
            self._disbelieved.report(
                uid, f"the assignment of pod {pod.ref} on {pod.node} is not believed in all: {difference}"
            )
        # Kept once, as nearly all are.
        return written if believed == written else believed

    def _find_unit(self, inventory: Inventory | None, pod: CardPod) -> int:
        """Return the unit in which the pod was given devices, where its node is known, else the cluster's."""
        if inventory is None:
            return self._ledger.unit_bytes or DEFAULT_UNIT_BYTES
        return find_unit(inventory.unit_bytes, inventory.former_units, pod.started_at)

    def _find_compute(self, uid: str) -> Mapping[str, int] | None:
        if (seen := self._compute.get(uid)) is not None:
            return seen
        held = self._ledger.find_holding(uid)
        return None if held is None else list_compute(held.assignment)

    def _put_unassigned(self, pod: CardPod, unit_bytes: int, problem: str) -> None:
        try:
            request = pod.read_request(unit_bytes)
        except RequestError as exc:
            # Bound past us with a request we would have refused; the kubelet goes by the limits alone.
            request, problem = _read_limits(pod, unit_bytes), str(exc)
        if request is None:
            self._ledger.release(pod.ref.uid)
            return
        if (seen := self._find_compute(pod.ref.uid)) is not None:
            request = PodRequest(
                tuple(msgspec.structs.replace(c, compute=seen.get(c.container, 0)) for c in request.containers)
            )
            self._compute.setdefault(pod.ref.uid, seen)
        self._unassigned.report(
            pod.ref.uid, f"pod {pod.ref} is bound to {pod.node} without a usable assignment: {problem}"
        )
        self._ledger.confirm_unassigned(UnassignedPod(pod.ref, pod.node, request, shorten(problem), pod.labels))


def _find_written(pod: CardPod, inventory: Inventory | None, unit_bytes: int) -> Assignment | None:
    """Return the assignment that is written on a bound pod as we do, else as another system does; None for neither.

    Raises:
        AssignmentError: it cannot be read, or not be believed.
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
