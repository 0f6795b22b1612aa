"""Findings about signatures: one that holds, or why none does."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from accelkit.errors import SignatureError

# Messages end in the status of objects and on terminals.
MAX_MESSAGE_LENGTH = 500


class RejectionReason(enum.StrEnum):
    """Why a signature does not count, in the order of how near it came; last, why nothing is known at all."""

    NOT_COVERED = "NotCovered"
    NO_SIGNATURES = "NoSignatures"
    UNREADABLE = "Unreadable"
    NOT_A_SIGNATURE = "NotASignature"
    OTHER_KIND = "OtherKind"
    SUBJECT_MISMATCH = "SubjectMismatch"
    SIGNATURE_INVALID = "SignatureInvalid"
    UNTRUSTED_ROOT = "UntrustedRoot"
    CERTIFICATE_EXPIRED = "CertificateExpired"
    LOG_ENTRY_MISSING = "LogEntryMissing"
    LOG_ENTRY_INVALID = "LogEntryInvalid"
    IDENTITY_MISMATCH = "IdentityMismatch"
    ANNOTATION_MISMATCH = "AnnotationMismatch"
    TRUST_ROOT_UNAVAILABLE = "TrustRootUnavailable"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"

    @property
    def retryable(self) -> bool:
        """Whether nothing was learnt about the image, so that asking again later may give a verdict."""
        return self in {RejectionReason.REGISTRY_UNAVAILABLE, RejectionReason.TRUST_ROOT_UNAVAILABLE}


@dataclass(frozen=True)
class Signature:
    """A signature that holds.

    Attributes:
        policy: name of the signer policy that it satisfies.
        signer: name of the signer in it.
        format: `cosign-v2` or `cosign-v3`.
        identity: the certificate's subject, or `sha256:…` of the public key.
        issuer: who vouched for the identity; None for a key.
        log_index: place in the transparency log, or None where no entry was verified.
        signed_at: a proven time, or None where nothing proves one.
        source: where it was found.
    """

    policy: str
    signer: str
    format: str
    identity: str
    issuer: str | None = None
    log_index: int | None = None
    signed_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True)
class Failure:
    """Why one signature does not satisfy one signer. `source` and `signer` may be empty where it concerns all.

    Where the registry could not be reached, `beside_mirrors` says that all of its mirrors have answered.
    """

    reason: RejectionReason
    message: str
    source: str = ""
    signer: str = ""
    beside_mirrors: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", sanitize_message(self.message))

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        signer = f" (signer {self.signer})" if self.signer else ""
        return f"{where}{self.reason}: {self.message}{signer}"


class RejectedError(SignatureError):
    """One signature does not satisfy one signer.

    Args:
        reason: its code.
        message: one sentence.
    """

    def __init__(self, reason: RejectionReason, message: str) -> None:
        super().__init__(sanitize_message(message))
        self.reason = reason


class UnverifiedError(SignatureError):
    """No signature of an image satisfies a policy, or nothing can be known about it.

    Args:
        message: one sentence.
        failures: why, per signature and signer; at least one.
    """

    def __init__(self, message: str, failures: tuple[Failure, ...], *, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.failures = failures
        self.reason = choose_nearest(failures).reason


def choose_nearest(failures: tuple[Failure, ...]) -> Failure:
    """Return the failure that is worth telling first.

    It is the one that came nearest to success, unless something could not be read for now: that may be the
    signature that counts, so then nothing is decided.
    """
    order = list(RejectionReason)
    return max(failures, key=lambda failure: order.index(failure.reason))


def sanitize_message(text: str) -> str:
    """Return a message without control characters, and cut to a readable length."""
    shown = "".join(each if each.isprintable() else " " for each in text[: MAX_MESSAGE_LENGTH + 1])
    return shown if len(shown) <= MAX_MESSAGE_LENGTH else shown[:MAX_MESSAGE_LENGTH] + "…"
