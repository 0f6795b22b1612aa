"""Record of the remediation of a node: the annotation `accelkit.io/remediation`, the only durable state.

The record is written in the same request as cordon and taint. So if one of those that it lists is missing, another
client has removed it. The record is removed with the last card of a node.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

REMEDIATION_VERSION: Final = 1
_MOST_BYTES: Final = 32 * 1024


class Step(StrEnum):
    """Steps of the remediation of a card."""

    ISOLATED = "isolated"
    DRAINING = "draining"
    REPAIRING = "repairing"
    VALIDATING = "validating"


class CardRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one failed card.

    Attributes:
        fault: the identity of its fault.
        reason: CamelCase code of the fault.
        step: the current step.
        since: Unix seconds at which it was isolated.
        step_since: Unix seconds at which the current step began.
        cordoned: whether accelkit added the word to the cordon.
        job: name of the Job that resets it; empty if there is none.
        repaired: whether the card was added to the repaired cards after the Job succeeded.
        late: whether a deadline has passed or a Job failed, and an administrator was called.
        healthy_since: Unix seconds since which the card is healthy without interruption; 0 if it is not.
    """

    fault: str
    reason: str
    step: Step
    since: float
    step_since: float
    cordoned: bool = True
    job: str = ""
    repaired: bool = msgspec.field(name="mended", default=False)
    late: bool = False
    healthy_since: float = 0.0


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one node.

    Attributes:
        cards: the cards under remediation, by ID.
        dismissed: by card, the faults that are ignored because an administrator removed the cordon.
        cordon_before: the annotation of cordons before accelkit's first change; None if there was none.
        taint: the value of accelkit's taint; empty if accelkit added none.
        condition: whether accelkit wrote the condition.
    """

    cards: dict[str, CardRecord] = {}
    dismissed: dict[str, str] = {}
    cordon_before: str | None = None
    taint: str = ""
    condition: bool = False
    version: int = REMEDIATION_VERSION

    @property
    def empty(self) -> bool:
        """Whether the record has no content."""
        return not self.cards and not self.dismissed


class _Version(msgspec.Struct):
    version: int = REMEDIATION_VERSION


def read_record(text: str | None) -> NodeRecord | None:
    """Return the record of a node; empty if there is none, None if it is unreadable or of another version."""
    if text is None:
        return NodeRecord()
    if len(text) > _MOST_BYTES:
        return None
    try:
        # Another version may have other fields.
        if msgspec.json.decode(text, type=_Version).version != REMEDIATION_VERSION:
            return None
        return msgspec.json.decode(text, type=NodeRecord)
    except (msgspec.DecodeError, RecursionError):
        return None


def write_record(record: NodeRecord) -> str | None:
    """Return the annotation's value; None to remove the annotation."""
    return None if record.empty else msgspec.json.encode(record, order="sorted").decode()
