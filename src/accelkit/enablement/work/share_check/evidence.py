"""Evidence of a check pod, as one line of JSON.

The line is returned as the container's termination message in the pod's status, so no log is read. A kubelet keeps at
most 4096 bytes of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.enablement.work.reasons import WorkReason
from accelkit.errors import AccelkitError, ServiceError
from accelkit.texts import shorten

EVIDENCE_VERSION: Final = 1
# The size of a termination message that a kubelet keeps.
MAX_MESSAGE_BYTES: Final = 4096
# The most that is read, because a forged status may have a longer message.
MAX_READ_CHARACTERS: Final = 16 * 1024
_MAX_DETAIL: Final = 300
_MAX_NAMES: Final = 16
_MAX_NAME: Final = 60


class ShareEvidence(msgspec.Struct, frozen=True):
    """The evidence of a container about its share.

    Attributes:
        passed: whether all tests passed.
        reason: CamelCase code of the failure, one of `accelkit.enablement.work.reasons`; empty if all passed.
        detail: the failure as a sentence.
        memory_bytes: its memory limit; None if it has none.
        variables: the variables by which vendors name the cards of a container.
        device_nodes: its device nodes of cards, for example `/dev/nvidia0`.
        closed: the nodes that its user may not open, which is not a fault of the card.
        identities: the identities of the cards that their driver's library reports, for example `GPU-…`.
        work: the computation, and where it ran.
        seconds: the total duration.
    """

    passed: bool
    version: int = EVIDENCE_VERSION
    reason: str = ""
    detail: str = ""
    memory_bytes: int | None = None
    variables: dict[str, str] = {}
    device_nodes: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    work: str = ""
    seconds: float = 0.0


class WorkError(AccelkitError):
    """A failed test of a check.

    Args:
        reason: its code.
        message: one sentence.
    """

    def __init__(self, reason: WorkReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def encode_evidence(evidence: ShareEvidence) -> bytes:
    """Return the line without a line break; lists and texts are shortened so that a kubelet keeps all of it."""
    cut = msgspec.structs.replace(
        evidence,
        detail=shorten(evidence.detail, _MAX_DETAIL),
        variables={name: shorten(text, _MAX_NAME) for name, text in list(evidence.variables.items())[:_MAX_NAMES]},
        device_nodes=_cut(evidence.device_nodes),
        closed=_cut(evidence.closed),
        identities=_cut(evidence.identities),
        work=shorten(evidence.work, _MAX_DETAIL),
    )
    line = msgspec.json.encode(cut)
    if len(line) <= MAX_MESSAGE_BYTES:
        return line
    # Only texts with many bytes per character exceed the limit.
    return msgspec.json.encode(msgspec.structs.replace(cut, detail="", work="", variables={}, closed=()))


def decode_evidence(text: str) -> ShareEvidence:
    """Return the evidence in the last line of a termination message.

    Raises:
        ServiceError: there is no such line, or it is too long or of another version.
    """
    if len(text) > MAX_READ_CHARACTERS:
        raise ServiceError(f"the evidence of {len(text)} characters is longer than a kubelet keeps")
    line = next((each for each in reversed(text.splitlines()) if each.strip()), "")
    try:
        version = decode_version(line)
        if version != EVIDENCE_VERSION:
            raise ServiceError(f"evidence of version {version} is not supported (this is version {EVIDENCE_VERSION})")
        return msgspec.json.decode(line, type=ShareEvidence)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        output = shorten(" ".join(text.split())[-200:]) or "nothing"
        raise ServiceError(f"the container left no evidence; it printed: {output}") from exc


def _cut(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shorten(name, _MAX_NAME) for name in names[:_MAX_NAMES])
