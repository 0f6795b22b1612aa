"""The line of JSON by which a check pod tells what it found.

It comes back as the container's termination message, in the pod's status: no log is asked for, and a kubelet keeps no
more than 4096 bytes of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import AccelkitError, ServiceError
from accelkit.texts import shorten

EVIDENCE_VERSION: Final = 1
# What a kubelet keeps of a termination message.
MAX_MESSAGE_BYTES: Final = 4096
# What is read at most, whatever a kubelet that is none hands on.
MAX_READ_CHARACTERS: Final = 16 * 1024
_MAX_DETAIL: Final = 300
_MAX_NAMES: Final = 16
_MAX_NAME: Final = 60


class ShareEvidence(msgspec.Struct, frozen=True):
    """What a container found of its share.

    Attributes:
        passed: whether all that could be tried went well.
        reason: CamelCase code of what did not, one of `accelkit.enablement.work.reasons`; empty where all went well.
        detail: the same as a sentence.
        memory_bytes: the limit that it was told; None where it was told none.
        variables: those by which vendors name the cards of a container, as it has them.
        device_nodes: those of cards that it sees, as `/dev/nvidia0`.
        closed: those that it may not open as its user, which says nothing of the card.
        identities: of the cards that their driver's library shows it, as `GPU-…`.
        work: what was computed, and where.
        seconds: how long all of it took.
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
    """Something that a check tried did not go well.

    Args:
        reason: its code.
        message: one sentence.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _Version(msgspec.Struct):
    version: int


def encode_evidence(evidence: ShareEvidence) -> bytes:
    """Return the line, without its end; lists and texts are cut so that a kubelet keeps all of it."""
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
    # Only texts of many bytes for each character come here.
    return msgspec.json.encode(msgspec.structs.replace(cut, detail="", work="", variables={}, closed=()))


def decode_evidence(text: str) -> ShareEvidence:
    """Read the last line of a termination message.

    Raises:
        ServiceError: it is none, too long, or of another version.
    """
    if len(text) > MAX_READ_CHARACTERS:
        raise ServiceError(f"the evidence of {len(text)} characters is longer than a kubelet keeps")
    line = next((each for each in reversed(text.splitlines()) if each.strip()), "")
    try:
        version = msgspec.json.decode(line, type=_Version).version
        if version != EVIDENCE_VERSION:
            raise ServiceError(f"evidence of version {version} is not known (this is version {EVIDENCE_VERSION})")
        return msgspec.json.decode(line, type=ShareEvidence)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        said = shorten(" ".join(text.split())[-200:]) or "nothing"
        raise ServiceError(f"the container left no evidence; it said: {said}") from exc


def _cut(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(shorten(name, _MAX_NAME) for name in names[:_MAX_NAMES])
