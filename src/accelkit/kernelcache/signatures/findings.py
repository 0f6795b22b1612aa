"""Results of signature verification: a valid signature, or the reasons for its rejection."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from accelkit.errors import SignatureError

# Messages are written to the status of Kubernetes objects and to terminals.
MAX_MESSAGE_LENGTH = 500


class RejectionReason(enum.StrEnum):
    """The reason for a rejection, in the order of the checks. For the last two reasons, the result is unknown."""

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
        """Whether the result is unknown, so that a later attempt may produce a verdict."""
        return self in {RejectionReason.REGISTRY_UNAVAILABLE, RejectionReason.TRUST_ROOT_UNAVAILABLE}


@dataclass(frozen=True)
class Signature:
    """A valid signature.

    Attributes:
        policy: the name of the signer policy that it satisfies.
        signer: the name of the signer in that policy.
        format: `cosign-v2` or `cosign-v3`.
        identity: the subject of the certificate, or `sha256:…` of the public key.
        issuer: the issuer of the identity; None for a key.
        log_index: the index of the entry in the transparency log; None if no entry was verified.
        signed_at: the verified signing time, or None.
        source: the origin of the signature.
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
    """The reason why a signature was rejected for a signer.

    If `source` or `signer` is empty, the failure applies to all signatures or signers. `beside_mirrors` is set if the
    registry was unreachable, but all of its mirrors responded.
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
    """A signature is not from the required signer, or it is invalid.

    Args:
        reason: the reason for the rejection.
        message: the message for users, as a sentence.
    """

    def __init__(self, reason: RejectionReason, message: str) -> None:
        super().__init__(sanitize_message(message))
        self.reason = reason


class UnverifiedError(SignatureError):
    """No signature of an image satisfies a policy, or the result is unknown.

    Args:
        message: the message for users, as a sentence.
        failures: the failures of each signature and signer; not empty.
        next_step: the next step for users.
    """

    def __init__(self, message: str, failures: tuple[Failure, ...], *, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step)
        self.failures = failures
        self.reason = choose_nearest(failures).reason


def choose_nearest(failures: tuple[Failure, ...]) -> Failure:
    """Return the failure to report first.

    This is the failure that passed the most checks. A temporary failure has precedence, because the object that could
    not be read may be the valid signature, so the result is unknown.
    """
    order = list(RejectionReason)
    return max(failures, key=lambda failure: order.index(failure.reason))


def sanitize_message(text: str) -> str:
    """Return a message without control characters, truncated to `MAX_MESSAGE_LENGTH` characters."""
    printable = "".join(each if each.isprintable() else " " for each in text[: MAX_MESSAGE_LENGTH + 1])
    return printable if len(printable) <= MAX_MESSAGE_LENGTH else printable[:MAX_MESSAGE_LENGTH] + "…"
