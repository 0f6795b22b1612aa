"""One signature with everything that came with it, the same for every wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography import x509

from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.keys import PublicKey

# Nothing that belongs to a signature is larger.
MAX_SIGNATURE_BYTES = 1 << 20
# The last second that a date can hold, and the last integer on which all readers of JSON agree.
_LAST_SECOND = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_LAST_INTEGER = (1 << 53) - 1


class SignatureMaterial(msgspec.Struct, frozen=True):
    """A signature as it was attached to an image, nothing of it judged, so that it can be judged again.

    Attributes:
        source: where it was found, for messages.
        content: a bundle, or the payload that cosign 2 signs.
        annotations: of the payload's layer; None for a bundle.
    """

    source: str
    content: bytes
    annotations: dict[str, str] | None = None


@dataclass(frozen=True)
class LogRecord:
    """What a transparency log is said to have.

    Attributes:
        body: the entry, as the log canonicalised it.
        log_id: SHA-256 of the log's key; a hint.
        log_index: place in the log.
        integrated_time: seconds since 1970, or None; proven only by the promise.
        promise: the log's signature over the four above, or None.
        proof: sigstore's entry with an inclusion proof and a checkpoint, or None.

    Raises:
        RejectedError: place or time are none.
    """

    body: bytes
    log_id: bytes
    log_index: int
    integrated_time: int | None
    promise: bytes | None
    proof: Any = None

    def __post_init__(self) -> None:
        if not 0 <= self.log_index <= _LAST_INTEGER or not 0 <= (self.integrated_time or 0) <= _LAST_SECOND:
            raise RejectedError(RejectionReason.UNREADABLE, "the log's entry has a place or a time that cannot be")

    @property
    def promised_at(self) -> datetime | None:
        """When the log says that it took the entry, or None where it promises nothing."""
        if self.promise is None or self.integrated_time is None:
            return None
        return datetime.fromtimestamp(self.integrated_time, UTC)

    @property
    def proven_index(self) -> int:
        """The place in the log that promise or proof are about; without a promise, nothing proves `log_index`."""
        return int(self.proof.inclusion_proof.log_index) if self.promise is None else self.log_index


@dataclass(frozen=True)
class SignatureEvidence:
    """A signature whose claim is about the right image; who made it is still open.

    Attributes:
        format: `cosign-v2` or `cosign-v3`.
        source: where it was found, for messages.
        signed: the bytes that the signature is over; None where only their digest is known.
        signed_digest: SHA-256 of those bytes.
        payload_digest: SHA-256 of what they say; the same but for envelopes.
        signature: raw.
        enveloped: whether it is the signature of an envelope (DSSE).
        certificate: the signer's, or None for a plain key.
        chain: untrusted certificates that came along.
        hint: which key it was, as the bundle says; None where it does not.
        record: the log's, or None.
        timestamps: RFC 3161 responses over the signature, DER.
        annotations: what the signature claims beside the digest.
        bundle: sigstore's own bundle, where sigstore can judge it.
    """

    format: str
    source: str
    signed: bytes | None
    signed_digest: bytes
    payload_digest: bytes
    signature: bytes
    enveloped: bool = False
    certificate: x509.Certificate | None = None
    chain: tuple[x509.Certificate, ...] = ()
    hint: str | None = None
    record: LogRecord | None = None
    timestamps: tuple[bytes, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    bundle: Any = None

    def check(self, key: PublicKey) -> None:
        """Check that the signature is by a key.

        Raises:
            RejectedError: it is not.
        """
        if self.signed is None:
            key.check_digest(self.signature, self.signed_digest)
        else:
            key.check(self.signature, self.signed)
