"""The upgrade of a node, interrupted everywhere: who cordoned it is never forgotten, and the next run goes on."""

import msgspec
import pytest
from driver_nodes import build_node

from accelkit.enablement.drivers.upgrading.record import (
    Phase,
    UpgradeRecord,
    advance,
    begin,
    end,
    read_record,
    write_record,
)
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

TARGET = "550.54.14"


def node(record=None, **changed):
    annotations = {} if record is None else {DRIVER_UPGRADE_ANNOTATION: write_record(record)}
    return build_node("a", annotations=annotations, **changed)


def apply(before, step):
    """The node as the API server has it after a step."""
    annotations = dict(before.annotations)
    if step.changed:
        annotations.pop(DRIVER_UPGRADE_ANNOTATION, None)
        if step.record is not None:
            annotations[DRIVER_UPGRADE_ANNOTATION] = write_record(step.record)
    unschedulable = before.unschedulable if step.unschedulable is None else step.unschedulable
    return msgspec.structs.replace(before, annotations=annotations, unschedulable=unschedulable)


def run_until(start, phase):
    """A run that ends amid a phase, as one that is killed."""
    step = begin(start, TARGET, 1.0)
    found = apply(start, step)
    for each in (Phase.UPGRADE, Phase.VALIDATE):
        if phase is Phase.DRAIN:
            break
        found = apply(found, advance(found, step.record, each, 2.0))
        if each is phase:
            break
    return found


@pytest.mark.parametrize("cordoned", [False, True])
def test_completed_upgrade_restores_node(cordoned):
    start = node(cordoned=cordoned)
    found = run_until(start, Phase.VALIDATE)
    assert found.unschedulable
    assert read_record(found) == UpgradeRecord(
        Phase.VALIDATE, TARGET, not cordoned, began_at=1.0, since=2.0, boot_id="boot-1"
    )
    assert apply(found, end(found, 3.0)) == start


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("phase", [Phase.DRAIN, Phase.UPGRADE, Phase.VALIDATE])
def test_interrupted_upgrade_resumes_in_same_phase(phase, cordoned):
    start = node(cordoned=cordoned)
    found = run_until(start, phase)
    # Where nothing goes on, the uncordon alone ends it.
    assert apply(found, end(found, 3.0)) == start
    again = begin(found, TARGET, 100.0)
    assert (again.changed, again.record.phase, again.record.ours) == (False, phase, not cordoned)
    assert again.record.began_at == 1.0
    # And whatever the second run does, the end is the same.
    for each in (Phase.UPGRADE, Phase.VALIDATE):
        found = apply(found, advance(found, again.record, each, 101.0))
    assert apply(found, end(found, 102.0)) == start


@pytest.mark.parametrize("phase", [Phase.DRAIN, Phase.UPGRADE, Phase.VALIDATE])
def test_manual_uncordon_stops_run_and_next_run_restarts_upgrade(phase):
    found = msgspec.structs.replace(run_until(node(), phase), unschedulable=False)
    record = read_record(found)
    assert advance(found, record, Phase.VALIDATE, 3.0).refusal == "UncordonedByHand"
    ended = apply(found, end(found, 4.0, reason="UncordonedByHand", evidence="it is not cordoned"))
    assert not ended.unschedulable
    again = begin(found, TARGET, 100.0)
    assert (again.record.phase, again.record.ours, again.unschedulable) == (Phase.DRAIN, True, True)
    assert again.record.began_at == 100.0


def test_lifted_foreign_cordon_is_replaced_by_owned_cordon():
    found = msgspec.structs.replace(run_until(node(cordoned=True), Phase.UPGRADE), unschedulable=False)
    again = begin(found, TARGET, 100.0)
    assert (again.record.ours, again.unschedulable) == (True, True)


@pytest.mark.parametrize("cordoned", [False, True])
def test_changed_target_restarts_upgrade_and_keeps_cordon_owner(cordoned):
    found = run_until(node(cordoned=cordoned), Phase.VALIDATE)
    again = begin(found, "570.1", 100.0)
    assert (again.record.phase, again.record.target, again.record.ours) == (Phase.DRAIN, "570.1", not cordoned)
    assert again.unschedulable is None
    assert apply(apply(found, again), end(apply(found, again), 101.0)).unschedulable is cordoned


@pytest.mark.parametrize("ready", ["False", "Unknown", ""])
def test_upgrade_does_not_begin_on_unready_node(ready):
    assert begin(node(ready=ready), TARGET, 1.0).refusal == "NodeNotReady"
    drained = msgspec.structs.replace(run_until(node(), Phase.DRAIN), ready=None)
    step = begin(drained, TARGET, 1.0)
    assert (step.refusal, step.changed) == ("NodeNotReady", False)


@pytest.mark.parametrize("phase", [Phase.UPGRADE, Phase.VALIDATE])
def test_node_that_became_unready_during_upgrade_is_not_refused(phase):
    away = msgspec.structs.replace(run_until(node(), phase), ready=False)
    step = begin(away, TARGET, 3.0)
    assert (step.refusal, step.record.phase) == (None, phase)


@pytest.mark.parametrize("cordoned", [False, True])
def test_failure_is_recorded_and_node_is_uncordoned(cordoned):
    found = run_until(node(cordoned=cordoned), Phase.VALIDATE)
    failed = apply(found, end(found, 3.0, reason="DriverOther", evidence="x" * 1000))
    assert failed.unschedulable is cordoned
    record = read_record(failed)
    assert (record.phase, record.reason, record.ours) == (Phase.FAILED, "DriverOther", False)
    assert len(record.evidence) == 400
    # The uncordon in `always` comes after the record of the failure, and leaves it.
    step = end(failed, 4.0)
    assert (step.changed, step.record) == (False, record)
    again = begin(failed, TARGET, 100.0)
    assert (again.record.phase, again.record.ours, again.record.reason) == (Phase.DRAIN, not cordoned, "")


def test_node_kept_cordoned_after_failure_is_uncordoned_by_next_run():
    start = node()
    found = run_until(start, Phase.VALIDATE)
    failed = apply(found, end(found, 3.0, reason="DriverOther", evidence="x", keep_cordoned=True))
    assert failed.unschedulable
    assert not end(failed, 4.0).changed
    again = begin(failed, TARGET, 100.0)
    assert (again.record.phase, again.record.ours, again.unschedulable) == (Phase.DRAIN, True, None)
    whole = apply(failed, again)
    assert apply(whole, end(whole, 101.0)) == start


def test_foreign_cordon_is_not_recorded_as_owned_after_failure():
    found = run_until(node(cordoned=True), Phase.VALIDATE)
    failed = apply(found, end(found, 3.0, reason="DriverOther", evidence="x", keep_cordoned=True))
    assert not read_record(failed).ours


def test_advance_to_current_phase_changes_nothing():
    found = run_until(node(), Phase.VALIDATE)
    assert not advance(found, read_record(found), Phase.UPGRADE, 9.0).changed


def test_run_stops_if_another_run_restarted_upgrade():
    first = begin(node(), TARGET, 1.0).record
    second = apply(node(), begin(node(), TARGET, 2.0))
    assert advance(second, first, Phase.UPGRADE, 3.0).refusal == "Interrupted"
    assert advance(node(cordoned=True), first, Phase.UPGRADE, 3.0).refusal == "Interrupted"


@pytest.mark.parametrize("text", ["", "{", '{"phase": "drain", "version": 2}', '{"phase": "other"}', "x" * 5000])
def test_unreadable_upgrade_record_is_not_modified(text):
    found = build_node("a", cordoned=True, annotations={DRIVER_UPGRADE_ANNOTATION: text})
    record = UpgradeRecord(Phase.DRAIN)
    steps = [begin(found, TARGET, 1.0), advance(found, record, Phase.UPGRADE, 1.0), end(found, 1.0)]
    assert {(step.refusal, step.changed, step.unschedulable) for step in steps} == {("RecordUnreadable", False, None)}


def test_node_without_upgrade_is_not_uncordoned():
    step = end(node(cordoned=True), 1.0)
    assert (step.changed, step.unschedulable) == (False, None)
