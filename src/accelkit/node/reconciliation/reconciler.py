"""Corrects the assignments of this node's pods to what the kubelet shows that containers hold."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from accelkit.errors import ApiError, AssignmentError, RequestError
from accelkit.kube.client import ApiClient
from accelkit.kube.events import Events, ObjectReference
from accelkit.kube.paths import build_pod_path
from accelkit.logs import ErrorReporter
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, MOVING, Assignment, Share, encode_assignment
from accelkit.model.pod import Pod, PodRef
from accelkit.model.units import format_bytes
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.kubelet import ObservedAllocations
from accelkit.node.metrics import Metrics
from accelkit.node.pods import NodePod, NodePods
from accelkit.node.reconciliation.corrections import Correction, ObservedPod, plan
from accelkit.node.reconciliation.observed_assignment import ContainerDevices, NodeCards, observe_assignment
from accelkit.placement.constraints import find_broken_constraints
from accelkit.vendors.annotations import Granted
from accelkit.vendors.dialects import Dialect
from accelkit.vendors.pod_reading import CardPod

log = logging.getLogger(__name__)

PodName = tuple[str, str]  # namespace, name

_pod = msgspec.json.Decoder(Pod)


def group_devices_by_pod(
    answer: resources_api.ListPodResourcesResponse, dialect: Dialect
) -> dict[PodName, dict[str, ContainerDevices]]:
    """Return what the kubelet shows of our resources: by pod, by container; those without any are left out."""
    memory, whole = (
        ObservedAllocations(answer, name).devices for name in (dialect.resources.memory, dialect.resources.cards)
    )
    found: dict[PodName, dict[str, ContainerDevices]] = defaultdict(dict)
    for namespace, pod, container in sorted(memory.keys() | whole.keys()):
        key = namespace, pod, container
        found[namespace, pod][container] = ContainerDevices(memory.get(key, []), whole.get(key, []))
    return dict(found)


class Reconciler:
    """Corrects assignments to what the kubelet shows, with an event and a count for each.

    Args:
        api: an open client.
        pods: this node's pods.
        dialect: whose resource names the node advertises.
        cards: the node's cards as they are shown to the kubelet; None before they are.
        events: where corrections are told.
        metrics: where they are counted.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        pods: NodePods,
        dialect: Dialect,
        cards: Callable[[], NodeCards | None],
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._api = api
        self._pods = pods
        self._dialect = dialect
        self._cards = cards
        self._events = events
        self._metrics = metrics
        self._errors = ErrorReporter(log)
        self._forbidden = False

    async def reconcile(self, held: Mapping[PodName, Mapping[str, ContainerDevices]]) -> bool:
        """Correct what is wrong; False where something is left that a later look may put right.

        Args:
            held: what the kubelet shows.
        """
        node = self._cards()
        if node is None:
            return False
        pods = {each.pod.ref.uid: each for each in self._pods.list_pods()}
        observed = [found for each in pods.values() if (found := self._observe(each, held, node))]
        unsettled = [each for each in pods.values() if not each.admitted]
        awaited = {
            share.card
            for each in unsettled
            if each.assigned
            for shares in each.assigned.assignment.containers.values()
            for share in shares
        }
        for correction in plan(observed, awaited):
            if not await self._write(pods[correction.uid], correction):
                # A right that is not given does not come by asking again soon.
                return self._forbidden
        for each in observed:
            await self._settle(each, node)
        return not unsettled

    def _observe(
        self, each: NodePod, held: Mapping[PodName, Mapping[str, ContainerDevices]], node: NodeCards
    ) -> ObservedPod | None:
        ref = each.pod.ref
        devices = held.get((ref.namespace, ref.name))
        # Before its admission a pod may be taken for the one of the same name that has just ended.
        if devices is None or not each.admitted:
            return None
        written = each.assigned.assignment if each.assigned else None
        observed = observe_assignment(written, each.pod.order, devices, node)
        return ObservedPod(ref.uid, written, self._with_broken(each.pod, observed, node)) if observed else None

    def _with_broken(self, pod: CardPod, observed: Assignment, node: NodeCards) -> Assignment:
        try:
            request = pod.read_request(node.unit_bytes)
        except RequestError as exc:
            sentences: tuple[str, ...] = (str(exc),)
        else:
            sentences = find_broken_constraints(request, observed, node.cards) if request else ()
        return msgspec.structs.replace(observed, broken=sentences or msgspec.UNSET)

    async def _write(self, each: NodePod, correction: Correction) -> bool:
        try:
            await self._annotate(each.pod.ref, {ASSIGNMENT_ANNOTATION: encode_assignment(correction.assignment)})
        except ApiError as exc:
            if exc.not_found or exc.conflict:
                return True
            self._forbidden = exc.forbidden
            self._metrics.failures.inc()
            sentence = f"the assignment of pod {each.pod.ref} cannot be corrected: {exc}"
            self._errors.report(str(exc), sentence)
            return False
        self._errors.clear()
        if correction.first:
            await self._tell(each, correction.assignment)
        return True

    async def _annotate(self, pod: PodRef, annotations: Mapping[str, str]) -> None:
        # The UID is a precondition: another pod of this name is left alone.
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        answer = await self._api.patch(build_pod_path(pod.namespace, pod.name), body)
        self._pods.take(_pod.decode(answer))

    async def _settle(self, observed: ObservedPod, node: NodeCards) -> None:
        """Write the annotations by which the dialect says that the pod has its cards, and which."""
        codec = self._dialect.annotations
        each = next((pod for pod in self._pods.list_pods() if pod.pod.ref.uid == observed.uid), None)
        if codec is None or each is None:
            return
        granted = Granted(observed.observed, each.pod.app_containers, node.cards, node.unit_bytes)
        try:
            changes = codec.settle(each.pod.annotations, granted, time.time_ns())
            if changes:
                await self._annotate(each.pod.ref, changes)
        except (ApiError, AssignmentError) as exc:
            log.info("pod %s is not written as %s does: %s", each.pod.ref, self._dialect.name, exc)

    async def _tell(self, each: NodePod, observed: Assignment) -> None:
        ref = each.pod.ref
        subject = ObjectReference("Pod", ref.name, ref.namespace, ref.uid)
        if each.assigned is None:
            self._metrics.recorded.inc()
            reason, message = "AssignmentRecorded", f"bound past the scheduler; the kubelet gave {_describe(observed)}"
        else:
            self._metrics.corrections.inc()
            reason = "AssignmentCorrected"
            message = f"assigned {_describe(each.assigned.assignment)}; the kubelet gave {_describe(observed)}"
        log.info("pod %s: %s", ref, message)
        await self._events.record(subject, reason, message)
        if observed.broken:
            await self._events.record(subject, "ConstraintBroken", "; ".join(observed.broken), warning=True)


def _describe(assignment: Assignment) -> str:
    held = [(name, share) for name, shares in sorted(assignment.containers.items()) for share in shares]
    return ", ".join(f"{name} {_describe_share(share)}" for name, share in held if name != MOVING) or "nothing"


def _describe_share(share: Share) -> str:
    return f"card {share.card}" if share.whole else f"{format_bytes(share.memory_bytes)} of card {share.card}"
