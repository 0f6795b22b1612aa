"""State machine for the driver upgrade of one node: each step writes the Node at most once.

The record is the node's annotation `accelkit.io/driver-upgrade`. It is written and removed together with the cordon.
After an interrupted run, the node therefore has either both the record and the cordon, or neither. These invariants
hold:

- A node that was cordoned before the upgrade remains cordoned: `ours` is set only together with accelkit's cordon.
- The next run continues with the recorded phase. All work in a phase can be repeated safely.
- If the node is uncordoned during the upgrade, the run stops, and the next run starts from the beginning.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reasons import DriverReason, Refusal
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION
from accelkit.texts import shorten

UPGRADE_VERSION: Final = 1
_MAX_RECORD: Final = 4096
_MAX_EVIDENCE: Final = 400


class Phase(StrEnum):
    """The phases of an upgrade on a cordoned node, in order. FAILED means that the upgrade has ended."""

    DRAIN = "drain"
    UPGRADE = "upgrade"
    VALIDATE = "validate"
    FAILED = "failed"


_ORDER: Final = (Phase.DRAIN, Phase.UPGRADE, Phase.VALIDATE)


class UpgradeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of the upgrade of a node.

    Attributes:
        phase: the current phase.
        target: the desired driver version; empty for any version.
        ours: whether this upgrade cordoned the node and must therefore uncordon it.
        began_at: the start time of the upgrade in Unix seconds, which identifies the upgrade.
        since: the start time of the phase in Unix seconds.
        boot_id: the boot ID of the node when the upgrade began.
        reason: the reason for a failure. A newer release may have written a reason that this release does not define.
        evidence: the evidence for the reason, as a sentence.
    """

    phase: Phase
    target: str = ""
    ours: bool = False
    began_at: float = 0.0
    since: float = 0.0
    boot_id: str = ""
    reason: str = ""
    evidence: str = ""
    version: int = UPGRADE_VERSION


class UpgradeStep(msgspec.Struct, frozen=True):
    """A step of an upgrade, with the write to the node.

    Attributes:
        record: the record after the step; None if the annotation is removed.
        unschedulable: the new value of `spec.unschedulable`; None if it does not change.
        refusal: the reason why the step is not permitted; if set, the other fields describe the unchanged node.
        changed: whether the step writes to the node.
    """

    record: UpgradeRecord | None
    unschedulable: bool | None = None
    refusal: Refusal | None = None
    changed: bool = False


def read_record(node: DriverNode) -> UpgradeRecord | None:
    """Return the record of a node; None if the node does not have a record.

    Raises:
        ValueError: the record is unreadable, or its format version is newer.
    """
    text = node.annotations.get(DRIVER_UPGRADE_ANNOTATION)
    if text is None:
        return None
    if len(text) > _MAX_RECORD:
        raise ValueError("the record is too long")
    try:
        record = msgspec.json.decode(text, type=UpgradeRecord)
    except RecursionError as exc:
        raise ValueError("the record is nested too deeply") from exc
    if record.version != UPGRADE_VERSION:
        raise ValueError(f"the record has version {record.version}")
    return record


def write_record(record: UpgradeRecord) -> str:
    """Return the annotation value for a record."""
    return msgspec.json.encode(record).decode()


def begin(node: DriverNode, target: str, now: float) -> UpgradeStep:
    """Begin the upgrade of a node, or continue an interrupted upgrade.

    Args:
        node: the node.
        target: the desired driver version; if it differs from the version of an interrupted upgrade, the upgrade
            restarts.
        now: Unix seconds.
    """
    try:
        found = read_record(node)
    except ValueError:
        return UpgradeStep(None, refusal="RecordUnreadable")
    in_progress = found is not None and found.phase is not Phase.FAILED
    # The upgrade itself may have made the node unavailable. In this case, its validation waits for the node.
    expected = in_progress and found is not None and found.phase in (Phase.UPGRADE, Phase.VALIDATE)
    if node.ready is not True and not expected:
        return UpgradeStep(found, refusal="NodeNotReady")
    if found is not None and in_progress and node.unschedulable and found.target == target:
        return UpgradeStep(found)
    # If accelkit's cordon was removed, pods that have been scheduled since then must also be evicted.
    ours = not node.unschedulable or (found is not None and found.ours)
    record = UpgradeRecord(Phase.DRAIN, target, ours, began_at=now, since=now, boot_id=node.boot_id)
    return UpgradeStep(record, unschedulable=None if node.unschedulable else True, changed=True)


def advance(node: DriverNode, began: UpgradeRecord, phase: Phase, now: float) -> UpgradeStep:
    """Continue with the given phase, unless another run or a user has changed the upgrade.

    Args:
        node: the node.
        began: the record from which this run continues.
        phase: the phase that begins now; if this phase was already reached, the record does not change.
        now: Unix seconds.
    """
    try:
        found = read_record(node)
    except ValueError:
        return UpgradeStep(None, refusal="RecordUnreadable")
    if found is None or found.phase is Phase.FAILED or found.began_at != began.began_at:
        return UpgradeStep(found, refusal="Interrupted")
    if not node.unschedulable:
        return UpgradeStep(found, refusal="UncordonedByHand")
    if _ORDER.index(found.phase) >= _ORDER.index(phase):
        return UpgradeStep(found)
    return UpgradeStep(msgspec.structs.replace(found, phase=phase, since=now), changed=True)


def end(
    node: DriverNode, now: float, *, reason: DriverReason | None = None, evidence: str = "", keep_cordoned: bool = False
) -> UpgradeStep:
    """End the upgrade of a node; a node without an upgrade remains unchanged.

    Args:
        node: the node.
        now: Unix seconds.
        reason: the reason for a failure; None if the upgrade succeeded.
        evidence: the evidence for the reason, as a sentence.
        keep_cordoned: whether the node remains cordoned after a failed upgrade; if so, the next run uncordons the node.
    """
    try:
        found = read_record(node)
    except ValueError:
        return UpgradeStep(None, refusal="RecordUnreadable")
    if found is None:
        return UpgradeStep(None)
    if found.phase is Phase.FAILED:
        # The upgrade has already ended. Until the next upgrade begins, report the failure, and keep the cordon if
        # requested.
        return UpgradeStep(found)
    stays = bool(reason) and keep_cordoned
    uncordon = found.ours and node.unschedulable and not stays
    record = None
    if reason:
        record = msgspec.structs.replace(
            found,
            phase=Phase.FAILED,
            ours=found.ours and node.unschedulable and stays,
            since=now,
            reason=reason,
            evidence=shorten(evidence, _MAX_EVIDENCE),
        )
    return UpgradeStep(record, unschedulable=False if uncordon else None, changed=True)
