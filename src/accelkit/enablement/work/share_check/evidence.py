"""Evidence from a check pod, as one line of JSON.

The line is returned as the container's termination message in the pod's status, so that reading the log is not
necessary. A kubelet stores at most 4096 bytes of this message.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.enablement.work.reasons import WorkReason
from accelkit.errors import AccelkitError, ServiceError
from accelkit.texts import shorten

EVIDENCE_VERSION: Final = 1
# The maximum size of a termination message that a kubelet stores.
MAX_MESSAGE_BYTES: Final = 4096
# The maximum number of characters to read, because a forged status may contain a longer message.
MAX_READ_CHARACTERS: Final = 16 * 1024
_MAX_DETAIL: Final = 300
_MAX_NAMES: Final = 16
_MAX_NAME: Final = 60


class ShareEvidence(msgspec.Struct, frozen=True):
    """The evidence from a container about its share.

    Attributes:
        passed: whether all tests passed.
        reason: the CamelCase code of the failure, from `accelkit.enablement.work.reasons`; empty if all tests passed.
        detail: the failure as a sentence.
        memory_bytes: the container's memory limit on the card; None if there is no limit.
        variables: the environment variables that vendors use to identify the cards of a container.
        device_nodes: the device nodes of the container's cards, for example `/dev/nvidia0`.
        closed: the device nodes that the container's user is not permitted to open, which is not a fault of the card.
        identities: the identities of the cards, as reported by the driver library, for example `GPU-…`.
        work: the description of the computation, including the device that ran it.
        seconds: the total duration in seconds.
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
    """A test of the check failed.

    Args:
        reason: the code of the failure.
        message: the failure as a sentence.
    """

    def __init__(self, reason: WorkReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def encode_evidence(evidence: ShareEvidence) -> bytes:
    """Return the line without a line break. Lists and strings are truncated to the size that a kubelet can store."""
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
        ServiceError: the message does not contain such a line, is too long, or has an unsupported version.
    """
    if len(text) > MAX_READ_CHARACTERS:
        raise ServiceError(f"cannot read the evidence: {len(text)} characters are more than a kubelet stores")
    line = next((each for each in reversed(text.splitlines()) if each.strip()), "")
    try:
        version = decode_version(line)
        if version != EVIDENCE_VERSION:
            raise ServiceError(
                f"cannot read the evidence: unsupported version {version} (supported: {EVIDENCE_VERSION})"
            )
        return msgspec.json.decode(line, type=ShareEvidence)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        output = shorten(" ".join(text.split())[-200:]) or "nothing"
        raise ServiceError(f"the container did not write evidence; its output: {output}") from exc


def _cut(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shorten(name, _MAX_NAME) for name in names[:_MAX_NAMES])
