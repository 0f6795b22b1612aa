"""Corrects the assignments of this node's pods to what the kubelet shows that containers hold."""

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

# Requests to the API server: one after the other, a node full of small pods would take more than 20 s to correct.
_AT_ONCE: Final = 8

_pod = msgspec.json.Decoder(Pod)


class Reconciler:
    """Corrects assignments to what the kubelet shows, with an event and a count for each.

    Attributes:
        uncounted: what containers hold and no assignment could be made to say; None before the kubelet was asked.
        doubtful: whether the kubelet shows other pods than are known here, so that they have to be read again.

    Args:
        api: an open client.
        pods: this node's pods.
        cards: the node's cards as they are shown to the kubelet; None before they are.
        events: where corrections are told.
        metrics: where they are counted.
        clock: seconds, never backwards.
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
        # Pods of the present look whose writes were not answered.
        self._unanswered: set[str] = set()
        self.uncounted: tuple[Share, ...] | None = None
        self.doubtful = False

    async def reconcile(
        self,
        held: Mapping[PodName, Mapping[str, ContainerDevices]],
        recorded: RecordedDevices = MappingProxyType({}),
    ) -> bool:
        """Correct what is wrong; False where something is left that a later look may put right soon.

        A pod that the API server refuses to have written, or of whose write nothing is heard, is left alone for a
        while; the others are corrected.

        Args:
            held: what the kubelet shows.
            recorded: what its checkpoint says; of that, plain init containers count, which the kubelet does not show.
        """
        node = self._cards()
        if node is None:
            return False
        shown = KubeletView(held, recorded)
        self._unanswered.clear()
        try:
            look = await self._correct(shown, node)
            await _run_few_at_once(partial(self._settle, each, look, node) for each in look.observed)
        except ApiError as exc:
            # Two pods were not answered: the others would not be either.
            self._errors.report(str(exc), f"assignments cannot be corrected: {exc}")
            self._note(take_snapshot(self._pods.list_pods(), shown, node))
            return False
        self._errors.clear()
        self._note(look)
        return all(each.admitted for each in look.pods.values())

    def _note(self, look: Snapshot) -> None:
        wrong = sum(each.wrong for each in look.observed)
        self.uncounted = look.count_uncounted()
        # What is wrong and was not refused was written to a pod that is not as it is known here, or was not answered.
        self.doubtful = look.doubtful or bool(wrong and not look.partial and not self._refusals.list_refused())
        self._metrics.divergent.set(wrong)

    async def _correct(self, shown: KubeletView, node: NodeCards) -> Snapshot:
        """Write what can be written, and return what is so.

        Raises:
            ApiError: the API server does not answer.
        """
        look = take_snapshot(self._pods.list_pods(), shown, node)
        self._refusals.keep(look.pods)
        for part, error in look.partial.items():
            pod = look.pods[part].pod.ref
            self._partial.report(part, f"not all that pod {pod} holds is known, so it is not written: {error}")
        refused = {*self._refusals.list_waiting(), *look.partial}
        # What was to follow a refused write counted on it, so the rest is planned anew.
        while waves := plan(look.observed, look.awaited, refused):
            newly_refused = await self._write_all(look, waves)
            look = take_snapshot(self._pods.list_pods(), shown, node)
            if not newly_refused:
                break
            refused |= newly_refused
        return look

    async def _write_all(self, look: Snapshot, waves: Sequence[Sequence[Correction]]) -> set[str]:
        """Write until a wave has refused pods; return their UIDs."""
        refused = set[str]()

        async def write(correction: Correction) -> None:
            if not await self._write(look, correction):
                refused.add(correction.uid)

        for wave in waves:
            await _run_few_at_once(partial(write, correction) for correction in wave)
            if refused:
                break
        return refused

    async def _write(self, look: Snapshot, correction: Correction) -> bool:
        each = look.pods[correction.uid]
        try:
            assignment = _mark_recorded(correction.assignment, each.pod.assignment)
            await self._annotate(each.pod.ref, {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)})
        except ApiError as exc:
            if exc.not_found or exc.conflict:
                return True
            self._metrics.failures.labels(name_reason(exc)).inc()
            self._note_unanswered(correction.uid, exc)
            await self._tell_refusal(each, exc)
            return False
        self._refusals.clear(correction.uid)
        if correction.first:
            await self._tell(each, correction.assignment)
        return True

    def _note_unanswered(self, uid: str, error: ApiError) -> None:
        """Go on after a write that was not answered, which may be for the pod's sake.

        Raises:
            ApiError: it was the second pod of this look, so the API server is away.
        """
        if error.status == 0:
            self._unanswered.add(uid)
            if len(self._unanswered) > 1:
                self._refusals.note(uid, name_reason(error))
                raise error

    async def _tell_refusal(self, each: NodePod, error: ApiError) -> None:
        ref = each.pod.ref
        if self._refusals.note(ref.uid, name_reason(error)):
            log.warning(Facts("assignment not corrected", pod=str(ref), uid=ref.uid, reason=str(error)))
            if error.status == 0:
                return
            message = f"its assignment cannot be corrected to what the kubelet gave: {error}"
            await self._events.record(_refer_to(ref), "AssignmentNotCorrected", message, warning=True)

    async def _annotate(self, pod: PodRef, annotations: Mapping[str, str]) -> None:
        # The UID is a precondition: another pod of this name is left alone.
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        answer = await self._api.patch(build_pod_path(pod.namespace, pod.name), body)
        self._pods.take(_pod.decode(answer))

    async def _settle(self, observed: ObservedPod, look: Snapshot, node: NodeCards) -> None:
        """Write the annotations by which its dialect says that the pod has its cards, and which."""
        each = look.pods[observed.uid]
        codec = each.pod.dialect.annotations
        if codec is None or observed.uid in self._refusals.list_waiting() or observed.uid in look.partial:
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

    async def _tell(self, each: NodePod, observed: Assignment) -> None:
        ref = each.pod.ref
        subject = _refer_to(ref)
        written = each.assigned.assignment if each.assigned else Assignment({})
        reason = "AssignmentCorrected"
        if each.disbelieved:
            self._metrics.corrections.inc()
            self._metrics.disbelieved.inc()
            message = f"its assignment is not believed: {each.disbelieved}; the kubelet gave {_describe(observed)}"
        elif each.assigned is None:
            self._metrics.recorded.inc()
            reason, message = "AssignmentRecorded", f"bound past the scheduler; the kubelet gave {_describe(observed)}"
        else:
            self._metrics.corrections.inc()
            message = f"assigned {_describe(written)}; the kubelet gave {_describe(observed)}"
        event = "assignment recorded" if reason == "AssignmentRecorded" else "assignment corrected"
        facts = Facts(
            event,
            pod=str(ref),
            uid=ref.uid,
            assigned=_list_amounts(written),
            cards=_list_amounts(observed),
            disbelieved=each.disbelieved,
        )
        self._repeats.info(ref.uid, lambda: facts)
        await self._events.record(subject, reason, message, warning=bool(each.disbelieved))
        if observed.broken:
            await self._events.record(subject, "ConstraintBroken", "; ".join(observed.broken), warning=True)


async def _run_few_at_once(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Run jobs, a few of them at once. After an error no further job begins, and it is raised when all have ended.

    Raises:
        ApiError: a job raised it.
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
    """Return the assignment with the mark of a pod that the extender did not bind.

    The mark stays in each later correction.
    """
    recorded = written is None or (isinstance(written, Assignment) and written.recorded is True)
    return msgspec.structs.replace(assignment, recorded=True) if recorded else assignment


def _refer_to(pod: PodRef) -> ObjectReference:
    return ObjectReference("Pod", pod.name, pod.namespace, pod.uid)


def _describe(assignment: Assignment) -> str:
    held = [(name, share) for name, shares in sorted(assignment.containers.items()) for share in shares]
    return ", ".join(f"{name} {_describe_share(share)}" for name, share in held if name != MOVING) or "nothing"


def _list_amounts(assignment: Assignment) -> dict[str, dict[str, int]]:
    """Return the bytes of each card that each container has."""
    held = ((name, shares) for name, shares in sorted(assignment.containers.items()) if name != MOVING)
    return {name: {share.card: share.memory_bytes for share in shares} for name, shares in held}


def _describe_share(share: Share) -> str:
    return f"card {share.card}" if share.whole else f"{format_bytes(share.memory_bytes)} of card {share.card}"
