"""Advances one card that is under remediation by one step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from accelkit.model.card import Card, Health
from accelkit.model.stage import Outcome
from accelkit.remediation.deciding.actions import Action, CreateJob, Evict, TellNode, TellPod
from accelkit.remediation.deciding.faults import CardFault, find_fault
from accelkit.remediation.deciding.record import CardRecord, Step
from accelkit.remediation.deciding.settings import RemediationSettings
from accelkit.remediation.deciding.views import JobState, NodeView


@dataclass(frozen=True)
class Advance:
    """What becomes of a card.

    Attributes:
        record: as it is from now on; None where all of it is taken back.
        actions: what is done before that is written.
        mended: whether the node agent is told that the card is mended.
    """

    record: CardRecord | None
    actions: tuple[Action, ...] = ()
    mended: bool = False


@dataclass(frozen=True)
class CardCase:
    """A card that is under remediation.

    Attributes:
        view: its node.
        name: its id.
        card: as its agent shows it; None where that shows it no more, as after it was replaced.
        record: how far it has come.
        settings: what a person chose.
        now: Unix seconds.
        act: whether pods may be evicted and cards reset.
    """

    view: NodeView
    name: str
    card: Card | None
    record: CardRecord
    settings: RemediationSettings
    now: float
    act: bool

    @property
    def waited(self) -> float:
        """Seconds since the step began."""
        return self.now - self.record.step_since

    def keep(self, *actions: Action, **changes: Any) -> Advance:
        """Return the same record with some changes, and what is done before it is written."""
        return Advance(msgspec.structs.replace(self.record, **changes), actions)

    def enter(self, step: Step, *actions: Action) -> Advance:
        """Return the record at another step."""
        return self.keep(*actions, step=step, step_since=self.now, late=False)

    def call(self, reason: str, text: str) -> Advance:
        """Return that a person is called, and that nothing more is done until the card is healthy or free."""
        return self.keep(TellNode(reason, text), late=True)


def advance(case: CardCase) -> Advance:
    """Return what becomes of a card."""
    card, record = case.card, case.record
    if card is not None and card.health is Health.UNKNOWN:
        # Neither a fault nor a time of health.
        return case.keep(healthy_since=0.0)
    fault = None if card is None else find_fault(card)
    if fault is None:
        return _validate(case)
    if record.step is Step.VALIDATING or (fault.lasting and fault.identity != record.fault):
        begun = (record.since, case.now)
        return Advance(CardRecord(fault.identity, fault.reason, Step.ISOLATED, *begun, cordoned=record.cordoned))
    if not case.act:
        return case.keep()
    steps = {Step.ISOLATED: _tell, Step.DRAINING: _drain}
    return steps.get(record.step, _repair)(case, fault)


def _validate(case: CardCase) -> Advance:
    since = case.record.healthy_since
    if case.record.step is not Step.VALIDATING:
        return case.keep(step=Step.VALIDATING, step_since=case.now, healthy_since=case.now)
    if not since or since > case.now:
        return case.keep(healthy_since=case.now)
    if case.now - since < case.settings.healthy_seconds or not _has_passed(case):
        return case.keep()
    return Advance(None)


def _has_passed(case: CardCase) -> bool:
    """Return whether each check that is asked for passed since the card is healthy, in this run of the kernel."""
    stages, boot = case.view.stages, case.view.boot_id
    for stage in case.settings.stages:
        result = None if stages is None else stages.results.get(stage)
        if result is None or result.outcome is not Outcome.PASS or result.found_at < case.record.healthy_since:
            return False
        if result.state is not None and boot and result.state.boot_id not in {"", boot}:
            return False
    return True


def _tell(case: CardCase, fault: CardFault) -> Advance:
    what = "it will be evicted" if fault.drains else "it may run on"
    text = f"card {case.name} of node {case.view.name} has failed ({fault.reason}); {what}"
    told = (TellPod(each.pod, text) for each in case.view.holders.get(case.name, ()))
    return case.enter(Step.DRAINING if fault.drains else Step.REPAIRING, *told)


def _drain(case: CardCase, _fault: CardFault) -> Advance:
    view, name = case.view, case.name
    if view.is_free(name):
        return case.enter(Step.REPAIRING)
    if case.record.late:
        return case.keep()
    if case.waited >= case.settings.drain_seconds:
        left = len(view.holders.get(name, ())) + len(view.unplaced)
        who = f"{left} pods may hold it" if left else "its agent does not say that nobody holds it"
        text = f"card {name} is not free after {case.settings.drain_seconds:.0f} s: {who}; end them, and it goes on"
        return case.call("DrainLate", text)
    leaving = sorted(
        (each for each in view.holders.get(name, ()) if not each.stays),
        key=lambda each: (each.priority, each.pod.namespace, each.pod.name),
    )
    lowest = [each for each in leaving if each.priority == leaving[0].priority]
    # In turns where they are many: the first ones may have budgets that let none of them go.
    first = int(case.waited) % len(lowest) if len(lowest) > case.settings.evictions else 0
    turn = (lowest[first:] + lowest[:first])[: case.settings.evictions]
    return case.keep(*(Evict(each.pod, name) for each in turn))


def _repair(case: CardCase, fault: CardFault) -> Advance:
    record, name = case.record, case.name
    if record.late:
        return case.keep()
    if not (case.settings.reset_job and fault.resets):
        text = f"card {name} is isolated: mend it ({fault.reason}), then annotate the node accelkit.io/mended={name}"
        return case.call("RepairNeeded", text)
    if record.job:
        return _follow_job(case, fault)
    # Whoever came meanwhile, a reset would end.
    if not case.view.is_free(name):
        return case.enter(Step.DRAINING)
    # The name is written before the Job is asked for, so that no second one is.
    return _name_anew(case)


def _follow_job(case: CardCase, fault: CardFault) -> Advance:
    record, name = case.record, case.name
    state, late = case.view.jobs.get(record.job), case.waited >= case.settings.repair_seconds
    if state is JobState.SUCCEEDED and not record.mended:
        done = msgspec.structs.replace(record, mended=True, step_since=case.now)
        return Advance(done, mended=True)
    if state is JobState.FAILED or late:
        why = "has failed" if state is JobState.FAILED else "has not mended it in time"
        text = f"card {name}: the Job {record.job} {why}; mend the card, then annotate accelkit.io/mended={name}"
        return case.call("RepairFailed", text)
    if state is None and not record.mended and case.view.is_free(name):
        if record.job != _name_job(case, record.step_since):
            # A kubelet may write its node's record: by the name of another node's Job it would take that one's place.
            return _name_anew(case)
        return case.keep(CreateJob(record.job, name, fault.reason))
    return case.keep()


def _name_anew(case: CardCase) -> Advance:
    return case.keep(job=_name_job(case, case.now), step_since=case.now)


def _name_job(case: CardCase, since: float) -> str:
    """Return the name of the Job that resets a card for this fault, the same whoever asks.

    Args:
        case: the card.
        since: Unix seconds at which it was named, which the record has as the beginning of its step.
    """
    key = "\n".join((case.view.uid, case.name, case.record.fault, str(since)))
    return f"accelkit-reset-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
