"""The upgrade of one node's driver, as a state machine: each step is one write of the Node, or none.

The record is the node's annotation `accelkit.io/driver-upgrade`. It is written together with the cordon, and taken away
together with it, so that a run which ends anywhere leaves either both or none. What must hold:

- A node that somebody else cordoned stays cordoned: `ours` is written with our cordon, and nothing else sets it.
- The next run goes on in the phase that was recorded. Whatever a phase does may be done twice.
- Whoever uncordons the node meanwhile has the last word: the run stops, and another one begins anew.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION
from accelkit.texts import shorten

UPGRADE_VERSION: Final = 1
_MAX_RECORD: Final = 4096
_MAX_EVIDENCE: Final = 400


class Phase(StrEnum):
    """What is under way on a cordoned node, in this order; a failed upgrade is under way no more."""

    DRAIN = "drain"
    UPGRADE = "upgrade"
    VALIDATE = "validate"
    FAILED = "failed"


_ORDER: Final = (Phase.DRAIN, Phase.UPGRADE, Phase.VALIDATE)


class UpgradeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the upgrade of a node is.

    Attributes:
        phase: under way.
        target: version of the driver; empty where any will do.
        ours: whether this upgrade cordoned the node, so that it has to uncordon it.
        began_at: Unix seconds at which it began; tells one upgrade from another.
        since: Unix seconds at which the phase began.
        boot_id: of the kernel that ran when the upgrade began.
        reason: why it failed, one of `accelkit.enablement.drivers.reasons.REASONS`.
        evidence: the sentence that goes with it.
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


class Step(msgspec.Struct, frozen=True):
    """What is written to a node.

    Attributes:
        record: as it is afterwards; None for no annotation.
        unschedulable: what `spec.unschedulable` becomes; None where it stays.
        refusal: the reason for which nothing is done; then the rest says how the node is.
        changed: whether anything is written.
    """

    record: UpgradeRecord | None
    unschedulable: bool | None = None
    refusal: str = ""
    changed: bool = False


def read_record(node: DriverNode) -> UpgradeRecord | None:
    """Return the record of a node, None where it has none.

    Raises:
        ValueError: it cannot be read, or is of a newer version.
    """
    text = node.annotations.get(DRIVER_UPGRADE_ANNOTATION)
    if text is None:
        return None
    if len(text) > _MAX_RECORD:
        raise ValueError("the record is too long")
    try:
        record = msgspec.json.decode(text, type=UpgradeRecord)
    except RecursionError as exc:
        raise ValueError("the record is nested too deep") from exc
    if record.version != UPGRADE_VERSION:
        raise ValueError(f"the record has version {record.version}")
    return record


def write_record(record: UpgradeRecord) -> str:
    """Return the annotation's value."""
    return msgspec.json.encode(record).decode()


def begin(node: DriverNode, target: str, now: float) -> Step:
    """Begin the upgrade of a node, or go on with one that was interrupted.

    Args:
        node: as it is.
        target: version of the driver; another one than that of an interrupted upgrade begins anew.
        now: Unix seconds.
    """
    try:
        found = read_record(node)
    except ValueError:
        return Step(None, refusal="RecordUnreadable")
    under_way = found is not None and found.phase is not Phase.FAILED
    # The upgrade itself may have taken the node away: then its validation waits for it.
    away = under_way and found is not None and found.phase in (Phase.UPGRADE, Phase.VALIDATE)
    if node.ready is not True and not away:
        return Step(found, refusal="NodeNotReady")
    if found is not None and under_way and node.unschedulable and found.target == target:
        return Step(found)
    # Where our cordon was lifted by hand, the pods that came since have to leave again.
    ours = not node.unschedulable or (found is not None and found.ours)
    record = UpgradeRecord(Phase.DRAIN, target, ours, began_at=now, since=now, boot_id=node.boot_id)
    return Step(record, unschedulable=None if node.unschedulable else True, changed=True)


def advance(node: DriverNode, began: UpgradeRecord, phase: Phase, now: float) -> Step:
    """Go on to a phase, unless somebody came between.

    Args:
        node: as it is.
        began: the record with which this run goes on.
        phase: that begins now; one that was reached before changes nothing.
        now: Unix seconds.
    """
    try:
        found = read_record(node)
    except ValueError:
        return Step(None, refusal="RecordUnreadable")
    if found is None or found.phase is Phase.FAILED or found.began_at != began.began_at:
        return Step(found, refusal="Interrupted")
    if not node.unschedulable:
        return Step(found, refusal="UncordonedByHand")
    if _ORDER.index(found.phase) >= _ORDER.index(phase):
        return Step(found)
    return Step(msgspec.structs.replace(found, phase=phase, since=now), changed=True)


def end(node: DriverNode, now: float, *, reason: str = "", evidence: str = "", keep_cordoned: bool = False) -> Step:
    """End the upgrade of a node; a node without one is left alone.

    Args:
        node: as it is.
        now: Unix seconds.
        reason: why it failed; empty where it did not.
        evidence: the sentence that goes with it.
        keep_cordoned: whether a node whose upgrade failed stays cordoned; the next run uncordons it then.
    """
    try:
        found = read_record(node)
    except ValueError:
        return Step(None, refusal="RecordUnreadable")
    if found is None:
        return Step(None)
    if found.phase is Phase.FAILED:
        # It ended before. It is told, and its node kept cordoned where that was asked for, until the next one begins.
        return Step(found)
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
    return Step(record, unschedulable=False if uncordon else None, changed=True)
