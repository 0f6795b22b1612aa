"""Record of the remediation of a node: the annotation `accelkit.io/remediation`, which is the only durable state.

The record is written in the same request as the cordon and the taint. Therefore, if a listed cordon or taint is
missing, another client has removed it. The record is removed when it no longer contains any card.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

REMEDIATION_VERSION: Final = 1
_MOST_BYTES: Final = 32 * 1024


class RemediationStep(StrEnum):
    """Steps in the remediation of a card."""

    ISOLATED = "isolated"
    DRAINING = "draining"
    REPAIRING = "repairing"
    VALIDATING = "validating"


class CardRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one failed card.

    Attributes:
        fault: the identity of the fault.
        reason: the code of the fault, in CamelCase.
        step: the current step.
        since: the time of the isolation, in Unix seconds.
        step_since: the start time of the current step, in Unix seconds.
        cordoned: whether accelkit added the card to the cordon.
        job: the name of the Job that resets the card; empty if there is no Job.
        repaired: whether the Job succeeded and the card was added to the list of repaired cards.
        late: whether an administrator was called, for example because a time limit was exceeded or a Job failed.
        healthy_since: the start time of the current healthy period, in Unix seconds; 0 if the card is not healthy.
    """

    fault: str
    reason: str
    step: RemediationStep
    since: float
    step_since: float
    cordoned: bool = True
    job: str = ""
    repaired: bool = msgspec.field(name="mended", default=False)
    late: bool = False
    healthy_since: float = 0.0


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a node.

    Attributes:
        cards: the cards under remediation, by ID.
        dismissed: the fault of each card that is ignored because an administrator removed the cordon, by card ID.
        cordon_before: the cordon annotation before accelkit's first change; None if the annotation did not exist.
        taint: the value of accelkit's taint; empty if accelkit did not add a taint.
        condition: whether accelkit has written the condition.
    """

    cards: dict[str, CardRecord] = {}
    dismissed: dict[str, str] = {}
    cordon_before: str | None = None
    taint: str = ""
    condition: bool = False
    version: int = REMEDIATION_VERSION

    @property
    def empty(self) -> bool:
        """Whether the record is empty."""
        return not self.cards and not self.dismissed


class _Version(msgspec.Struct):
    version: int = REMEDIATION_VERSION


def read_record(text: str | None) -> NodeRecord | None:
    """Return the record of a node: empty without an annotation, None if it is unreadable or has a different version."""
    if text is None:
        return NodeRecord()
    if len(text) > _MOST_BYTES:
        return None
    try:
        # A different version may have different fields.
        if msgspec.json.decode(text, type=_Version).version != REMEDIATION_VERSION:
            return None
        return msgspec.json.decode(text, type=NodeRecord)
    except (msgspec.DecodeError, RecursionError):
        return None


def write_record(record: NodeRecord) -> str | None:
    """Return the value for the annotation; None if the annotation must be removed."""
    return None if record.empty else msgspec.json.encode(record, order="sorted").decode()
