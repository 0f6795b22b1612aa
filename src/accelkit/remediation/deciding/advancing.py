"""Transition of a card under remediation to its next step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from accelkit.model.card import Card, Health
from accelkit.model.stage import Outcome
from accelkit.remediation.deciding.actions import Action, CreateJob, Evict, NodeEvent, PodEvent
from accelkit.remediation.deciding.faults import CardFault, find_fault
from accelkit.remediation.deciding.record import CardRecord, RemediationStep
from accelkit.remediation.deciding.settings import RemediationSettings
from accelkit.remediation.deciding.views import JobState, RemediationNode


@dataclass(frozen=True)
class Advance:
    """The next state of a card.

    Attributes:
        record: the new record; None if the isolation is lifted.
        actions: the actions that must be carried out before the record is written.
        repaired: whether the card is added to the list of repaired cards. The node agent reads this list.
    """

    record: CardRecord | None
    actions: tuple[Action, ...] = ()
    repaired: bool = False


@dataclass(frozen=True)
class CardCase:
    """A card under remediation.

    Attributes:
        view: the state of the node that contains the card.
        name: the card ID.
        card: the card in the inventory; None if the inventory does not contain it, for example because it was replaced.
        record: the record of the card.
        settings: the administrator's settings.
        now: the current time in Unix seconds.
        act: whether pods may be evicted and cards may be reset.
    """

    view: RemediationNode
    name: str
    card: Card | None
    record: CardRecord
    settings: RemediationSettings
    now: float
    act: bool

    @property
    def waited(self) -> float:
        """The number of seconds since the current step began."""
        return self.now - self.record.step_since

    def keep(self, *actions: Action, **changes: Any) -> Advance:
        """Return the record with these changes, and the actions to carry out before it is written."""
        return Advance(msgspec.structs.replace(self.record, **changes), actions)

    def enter(self, step: RemediationStep, *actions: Action) -> Advance:
        """Return the record with a different step, and the actions to carry out before it is written."""
        return self.keep(*actions, step=step, step_since=self.now, late=False)

    def call(self, reason: str, text: str) -> Advance:
        """Return the next state for a call to an administrator. Remediation waits until the card is healthy or free."""
        return self.keep(NodeEvent(reason, text), late=True)


def advance(case: CardCase) -> Advance:
    """Return the next state of a card."""
    card, record = case.card, case.record
    if card is not None and card.health is Health.UNKNOWN:
        # It is unknown whether the card has a fault, so its healthy period starts again.
        return case.keep(healthy_since=0.0)
    fault = None if card is None else find_fault(card)
    if fault is None:
        return _validate(case)
    if record.step is RemediationStep.VALIDATING or (fault.lasting and fault.identity != record.fault):
        begun = (record.since, case.now)
        return Advance(
            CardRecord(fault.identity, fault.reason, RemediationStep.ISOLATED, *begun, cordoned=record.cordoned)
        )
    if not case.act:
        return case.keep()
    steps = {RemediationStep.ISOLATED: _announce, RemediationStep.DRAINING: _drain}
    return steps.get(record.step, _repair)(case, fault)


def _validate(case: CardCase) -> Advance:
    since = case.record.healthy_since
    if case.record.step is not RemediationStep.VALIDATING:
        return case.keep(step=RemediationStep.VALIDATING, step_since=case.now, healthy_since=case.now)
    if not since or since > case.now:
        return case.keep(healthy_since=case.now)
    if case.now - since < case.settings.healthy_seconds or not _has_passed(case):
        return case.keep()
    return Advance(None)


def _has_passed(case: CardCase) -> bool:
    """Return whether all required stages have passed since the card became healthy, and since the node was booted."""
    stages, boot = case.view.stages, case.view.boot_id
    for stage in case.settings.stages:
        result = None if stages is None else stages.results.get(stage)
        if result is None or result.outcome is not Outcome.PASS or result.found_at < case.record.healthy_since:
            return False
        if result.state is not None and boot and result.state.boot_id not in {"", boot}:
            return False
    return True


def _announce(case: CardCase, fault: CardFault) -> Advance:
    outcome = "the pod will be evicted" if fault.drains else "the pod can continue to run"
    text = f"card {case.name} of node {case.view.name} has failed ({fault.reason}); {outcome}"
    events = (PodEvent(each.pod, text) for each in case.view.holders.get(case.name, ()))
    return case.enter(RemediationStep.DRAINING if fault.drains else RemediationStep.REPAIRING, *events)


def _drain(case: CardCase, _fault: CardFault) -> Advance:
    view, name = case.view, case.name
    if view.is_free(name):
        return case.enter(RemediationStep.REPAIRING)
    if case.record.late:
        return case.keep()
    if case.waited >= case.settings.drain_seconds:
        left = len(view.holders.get(name, ())) + len(view.unplaced)
        cause = f"{left} pods may still use it" if left else "the node agent does not report it as free"
        text = f"card {name} is not free after {case.settings.drain_seconds:.0f} s: {cause}; delete them to continue"
        return case.call("DrainLate", text)
    leaving = sorted(
        (each for each in view.holders.get(name, ()) if not each.stays),
        key=lambda each: (each.priority, each.pod.namespace, each.pod.name),
    )
    lowest = [each for each in leaving if each.priority == leaving[0].priority]
    # If there are many pods, change the batch over time, because disruption budgets may prevent all evictions in the
    # first batch.
    first = int(case.waited) % len(lowest) if len(lowest) > case.settings.evictions else 0
    batch = (lowest[first:] + lowest[:first])[: case.settings.evictions]
    return case.keep(*(Evict(each.pod, name) for each in batch))


def _repair(case: CardCase, fault: CardFault) -> Advance:
    record, name = case.record, case.name
    if record.late:
        return case.keep()
    if not (case.settings.reset_job and fault.resets):
        text = f"card {name} is isolated: repair it ({fault.reason}), then annotate the node accelkit.io/mended={name}"
        return case.call("RepairNeeded", text)
    if record.job:
        return _follow_job(case, fault)
    # A reset would disrupt pods that have been assigned to the card in the meantime.
    if not case.view.is_free(name):
        return case.enter(RemediationStep.DRAINING)
    # The name of the Job is recorded before the Job is created, so that a second Job is never created.
    return _rename_job(case)


def _follow_job(case: CardCase, fault: CardFault) -> Advance:
    record, name = case.record, case.name
    state, late = case.view.jobs.get(record.job), case.waited >= case.settings.repair_seconds
    if state is JobState.SUCCEEDED and not record.repaired:
        done = msgspec.structs.replace(record, repaired=True, step_since=case.now)
        return Advance(done, repaired=True)
    if state is JobState.FAILED or late:
        problem = "failed" if state is JobState.FAILED else "did not repair the card in time"
        text = f"card {name}: Job {record.job} {problem}; repair it, then annotate the node accelkit.io/mended={name}"
        return case.call("RepairFailed", text)
    if state is None and not record.repaired and case.view.is_free(name):
        if record.job != _name_job(case, record.step_since):
            # A kubelet can write the record of its node. By recording the name of a Job for a different node, it could
            # block that Job.
            return _rename_job(case)
        return case.keep(CreateJob(record.job, name, fault.reason))
    return case.keep()


def _rename_job(case: CardCase) -> Advance:
    return case.keep(job=_name_job(case, case.now), step_since=case.now)


def _name_job(case: CardCase, since: float) -> str:
    """Return the name of the Job that resets a card because of this fault.

    Args:
        case: the card.
        since: the start time of the recorded step, in Unix seconds.
    """
    key = "\n".join((case.view.uid, case.name, case.record.fault, str(since)))
    return f"accelkit-reset-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
