"""What we did on a node and how far it has come: the annotation `accelkit.io/remediation`, the only durable state.

It is written in the same request as the cordon and the taint, so what it names was there: where one of them is
missing, somebody has taken it away. With the last card of a node it goes, too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

REMEDIATION_VERSION: Final = 1
_MOST_BYTES: Final = 32 * 1024


class Step(StrEnum):
    """How far a card has come."""

    ISOLATED = "isolated"
    DRAINING = "draining"
    REPAIRING = "repairing"
    VALIDATING = "validating"


class CardRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One card that failed.

    Attributes:
        fault: what tells its fault from another one.
        reason: CamelCase code of the fault.
        step: how far it has come.
        since: Unix seconds at which it was isolated.
        step_since: Unix seconds at which this step began.
        cordoned: whether the word in the cordon is ours.
        job: name of the Job that resets it; empty where there is none.
        mended: whether the node agent was told that the Job has mended it.
        late: whether a deadline has passed, or a Job failed, and a person was told.
        healthy_since: Unix seconds since which it has been seen healthy without a break; 0 where it is not.
    """

    fault: str
    reason: str
    step: Step
    since: float
    step_since: float
    cordoned: bool = True
    job: str = ""
    mended: bool = False
    late: bool = False
    healthy_since: float = 0.0


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done on one node.

    Attributes:
        cards: those under remediation, by id.
        dismissed: faults, by card, whose cordon a person took away: nothing is done about them.
        cordon_before: the annotation of cordons before our first word; None where there was none.
        taint: the value of our taint; empty where none is ours.
        condition: whether the condition is ours.
    """

    cards: dict[str, CardRecord] = {}
    dismissed: dict[str, str] = {}
    cordon_before: str | None = None
    taint: str = ""
    condition: bool = False
    version: int = REMEDIATION_VERSION

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.cards and not self.dismissed


class _Version(msgspec.Struct):
    version: int = REMEDIATION_VERSION


def read_record(text: str | None) -> NodeRecord | None:
    """Return the record of a node; empty where there is none, None where it cannot be read or is of another version."""
    if text is None:
        return NodeRecord()
    if len(text) > _MOST_BYTES:
        return None
    try:
        # Of another version, its fields may be others.
        if msgspec.json.decode(text, type=_Version).version != REMEDIATION_VERSION:
            return None
        return msgspec.json.decode(text, type=NodeRecord)
    except (msgspec.DecodeError, RecursionError):
        return None


def write_record(record: NodeRecord) -> str | None:
    """Return the annotation's value; None where it goes."""
    return None if record.empty else msgspec.json.encode(record, order="sorted").decode()
