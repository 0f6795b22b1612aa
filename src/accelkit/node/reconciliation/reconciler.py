"""Correction of the assignments of this node's pods to match the devices that the kubelet allocated."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.errors import ApiError, AssignmentError
from accelkit.kube.client import ApiClient
from accelkit.kube.events import Events, ObjectReference
from accelkit.kube.nesting import decode
from accelkit.kube.paths import build_pod_path
from accelkit.logs import ErrorReporter, Facts, RepeatLog
from accelkit.model.assignment import MOVING, Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod, PodRef
from accelkit.model.units import format_bytes
from accelkit.node.metrics import Metrics
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePod, NodePods
from accelkit.node.reconciliation.corrections import Correction, ObservedPod, plan
from accelkit.node.reconciliation.kubelet_checkpoint import RecordedDevices
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.node.reconciliation.refusals import Refusals, name_reason
from accelkit.node.reconciliation.snapshot import KubeletView, PodName, Snapshot, take_snapshot
from accelkit.reporting import OnceReporter
from accelkit.vendors.annotations import Granted

log = logging.getLogger(__name__)

# The number of concurrent requests. Without concurrency, corrections on a node with many pods take more than 20 s.
_AT_ONCE: Final = 8

_pod = msgspec.json.Decoder(Pod)


class Reconciler:
    """Reconciler of assignments with the devices that the kubelet reports.

    It reports each correction with a metric and an Event.

    Attributes:
        uncounted: the amounts that are allocated to containers but that no assignment contains; None before the first
            comparison.
        pods_outdated: whether the pods must be listed again, for example because the kubelet reports unknown pods.

    Args:
        api: an open client.
        pods: the pods of this node.
        cards: returns the node's cards as the plugins serve them; None until the plugins serve cards.
        events: the event recorder for corrections.
        metrics: the metrics of the agent.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        pods: NodePods,
        cards: Callable[[], NodeCards | None],
        events: Events,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._pods = pods
        self._cards = cards
        self._events = events
        self._metrics = metrics
        self._errors = ErrorReporter(log)
        self._refusals = Refusals(clock)
        self._repeats = RepeatLog(log)
        self._partial = OnceReporter(log)
        # The UIDs of the pods for which a write in the current call got no response.
        self._unanswered: set[str] = set()
        self.uncounted: tuple[Share, ...] | None = None
        self.pods_outdated = False

    async def reconcile(
        self,
        held: Mapping[PodName, Mapping[str, ContainerDevices]],
        recorded: RecordedDevices = MappingProxyType({}),
    ) -> bool:
        """Correct the assignments; return False if another call soon afterwards may correct more assignments.

        If the write for a pod fails, the pod is skipped temporarily. The other pods are still corrected.

        Args:
            held: the devices that the kubelet reports.
            recorded: the devices in the kubelet's checkpoint; only the devices of plain init containers are used.
        """
        node = self._cards()
        if node is None:
            return False
        view = KubeletView(held, recorded)
        self._unanswered.clear()
        try:
            snapshot = await self._correct(view, node)
            await _run_few_at_once(partial(self._settle, each, snapshot, node) for each in snapshot.observed)
        except ApiError as exc:
            # The writes for two pods got no response, so further writes would also fail.
            self._errors.report(str(exc), f"cannot correct assignments: {exc}")
            self._note(take_snapshot(self._pods.list_pods(), view, node))
            return False
        self._errors.clear()
        self._note(snapshot)
        return all(each.admitted for each in snapshot.pods.values())

    def _note(self, snapshot: Snapshot) -> None:
        wrong = sum(each.wrong for each in snapshot.observed)
        self.uncounted = snapshot.count_uncounted()
        # If an assignment is still wrong although its write was not rejected, the known pod is outdated, or the write
        # got no response.
        refused = self._refusals.list_refused()
        self.pods_outdated = snapshot.pods_outdated or bool(wrong and not snapshot.partial and not refused)
        self._metrics.divergent.set(wrong)

    async def _correct(self, view: KubeletView, node: NodeCards) -> Snapshot:
        """Write all possible corrections; return the resulting snapshot.

        Raises:
            ApiError: the API server does not respond.
        """
        snapshot = take_snapshot(self._pods.list_pods(), view, node)
        self._refusals.keep(snapshot.pods)
        for uid, error in snapshot.partial.items():
            pod = snapshot.pods[uid].pod.ref
            self._partial.report(uid, f"cannot correct pod {pod}: its devices are partly unknown: {error}")
        refused = {*self._refusals.list_waiting(), *snapshot.partial}
        # If a write is rejected, plan the remaining writes again, because they may depend on it.
        while waves := plan(snapshot.observed, snapshot.awaited, refused):
            newly_refused = await self._write_all(snapshot, waves)
            snapshot = take_snapshot(self._pods.list_pods(), view, node)
            if not newly_refused:
                break
            refused |= newly_refused
        return snapshot

    async def _write_all(self, snapshot: Snapshot, waves: Sequence[Sequence[Correction]]) -> set[str]:
        """Send the writes wave by wave, until a write in a wave fails.

        Return the UIDs of the pods whose writes failed.
        """
        refused = set[str]()

        async def write(correction: Correction) -> None:
            if not await self._write(snapshot, correction):
                refused.add(correction.uid)

        for wave in waves:
            await _run_few_at_once(partial(write, correction) for correction in wave)
            if refused:
                break
        return refused

    async def _write(self, snapshot: Snapshot, correction: Correction) -> bool:
        each = snapshot.pods[correction.uid]
        try:
            assignment = _mark_recorded(correction.assignment, each.pod.assignment)
            await self._annotate(each.pod.ref, {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)})
        except ApiError as exc:
            if exc.not_found or exc.conflict:
                return True
            self._metrics.failures.labels(name_reason(exc)).inc()
            self._note_unanswered(correction.uid, exc)
            await self._report_refusal(each, exc)
            return False
        self._refusals.clear(correction.uid)
        if correction.first:
            await self._report_correction(each, correction.assignment)
        return True

    def _note_unanswered(self, uid: str, error: ApiError) -> None:
        """Record a write that got no response.

        The first such write does not abort the call, because the pod may be the cause.

        Raises:
            ApiError: this is the second pod in this call, so the API server is unreachable.
        """
        if error.status == 0:
            self._unanswered.add(uid)
            if len(self._unanswered) > 1:
                self._refusals.note(uid, name_reason(error))
                raise error

    async def _report_refusal(self, each: NodePod, error: ApiError) -> None:
        ref = each.pod.ref
        if self._refusals.note(ref.uid, name_reason(error)):
            log.warning(Facts("assignment not corrected", pod=str(ref), uid=ref.uid, reason=str(error)))
            if error.status == 0:
                return
            message = f"cannot correct its assignment to the devices that the kubelet allocated: {error}"
            await self._events.record(_refer_to(ref), "AssignmentNotCorrected", message, warning=True)

    async def _annotate(self, pod: PodRef, annotations: Mapping[str, str]) -> None:
        # The UID is a precondition, which prevents changes to another pod with the same name.
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        answer = await self._api.patch(build_pod_path(pod.namespace, pod.name), body)
        self._pods.take(decode(_pod, answer))

    async def _settle(self, observed: ObservedPod, snapshot: Snapshot, node: NodeCards) -> None:
        """Write the annotations of the pod's dialect that mark the pod as allocated and list its cards."""
        each = snapshot.pods[observed.uid]
        codec = each.pod.dialect.annotations
        if codec is None or observed.uid in self._refusals.list_waiting() or observed.uid in snapshot.partial:
            return
        granted = Granted(observed.observed, each.pod.app_containers, node.cards, each.unit_bytes)
        try:
            changes = codec.settle(each.pod.annotations, granted, time.time_ns())
            if changes:
                await self._annotate(each.pod.ref, changes)
        except AssignmentError as exc:
            reason = "unreadable"
            error: ApiError | AssignmentError = exc
        except ApiError as exc:
            self._note_unanswered(observed.uid, exc)
            if exc.not_found or exc.conflict:
                return
            reason, error = name_reason(exc), exc
        else:
            return
        if self._refusals.note(observed.uid, reason):
            ref, dialect = each.pod.ref, each.pod.dialect.name
            log.info(Facts("annotations not settled", pod=str(ref), uid=ref.uid, dialect=dialect, reason=str(error)))

    async def _report_correction(self, each: NodePod, observed: Assignment) -> None:
        ref = each.pod.ref
        subject = _refer_to(ref)
        written = each.assigned.assignment if each.assigned else Assignment({})
        reason = "AssignmentCorrected"
        if each.rejection:
            self._metrics.corrections.inc()
            self._metrics.rejected.inc()
            message = f"its assignment is rejected: {each.rejection}; the kubelet allocated {_describe(observed)}"
        elif each.assigned is None:
            self._metrics.recorded.inc()
            reason, message = (
                "AssignmentRecorded",
                f"bound without the extender; the kubelet allocated {_describe(observed)}",
            )
        else:
            self._metrics.corrections.inc()
            message = f"assigned {_describe(written)}; the kubelet allocated {_describe(observed)}"
        event = "assignment recorded" if reason == "AssignmentRecorded" else "assignment corrected"
        facts = Facts(
            event,
            pod=str(ref),
            uid=ref.uid,
            assigned=_list_amounts(written),
            cards=_list_amounts(observed),
            rejection=each.rejection,
        )
        self._repeats.info(ref.uid, lambda: facts)
        await self._events.record(subject, reason, message, warning=bool(each.rejection))
        if observed.broken:
            await self._events.record(subject, "ConstraintBroken", "; ".join(observed.broken), warning=True)


async def _run_few_at_once(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run jobs, at most `_AT_ONCE` of them concurrently.

    After an error, do not start more jobs, and raise the error when the running jobs have finished.

    Raises:
        ApiError: a job failed.
    """
    waiting, errors = iter(jobs), list[ApiError]()

    async def work() -> None:
        while not errors and (job := next(waiting, None)) is not None:
            try:
                await job()
            except ApiError as exc:
                errors.append(exc)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    if errors:
        raise errors[0]


def _mark_recorded(assignment: Assignment, written: Assignment | AssignmentError | None) -> Assignment:
    """Return the assignment, marked as `recorded` if the extender did not bind the pod.

    Later corrections preserve this mark.
    """
    recorded = written is None or (isinstance(written, Assignment) and written.recorded is True)
    return msgspec.structs.replace(assignment, recorded=True) if recorded else assignment


def _refer_to(pod: PodRef) -> ObjectReference:
    return ObjectReference("Pod", pod.name, pod.namespace, pod.uid)


def _describe(assignment: Assignment) -> str:
    held = [(name, share) for name, shares in sorted(assignment.containers.items()) for share in shares]
    return ", ".join(f"{name} {_describe_share(share)}" for name, share in held if name != MOVING) or "nothing"


def _list_amounts(assignment: Assignment) -> dict[str, dict[str, int]]:
    """Return the memory of each container on each card, in bytes."""
    held = ((name, shares) for name, shares in sorted(assignment.containers.items()) if name != MOVING)
    return {name: {share.card: share.memory_bytes for share in shares} for name, shares in held}


def _describe_share(share: Share) -> str:
    return f"card {share.card}" if share.whole else f"{format_bytes(share.memory_bytes)} of card {share.card}"
