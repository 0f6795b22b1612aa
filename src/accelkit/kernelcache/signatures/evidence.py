"""One signature with its certificates, log entry and timestamps, independent of its wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from cryptography import x509

from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.keys import PublicKey

# The size limit for each part of a signature.
MAX_SIGNATURE_BYTES = 1 << 20
# The last second that `datetime` can represent, and the largest integer that all JSON parsers read exactly.
_LAST_SECOND = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_LAST_INTEGER = (1 << 53) - 1


class SignatureMaterial(msgspec.Struct, frozen=True):
    """An unverified signature that was attached to an image. It is stored so that it can be verified again.

    Attributes:
        source: the origin of the signature, for messages.
        content: a bundle, or the payload that cosign 2 signed.
        annotations: the annotations of the layer with the payload; None for a bundle.
    """

    source: str
    content: bytes
    annotations: dict[str, str] | None = None


@dataclass(frozen=True)
class LogRecord:
    """An unverified transparency log entry.

    Attributes:
        body: the entry, in the canonical form of the log.
        log_id: the SHA-256 of the log's key, which is only a hint.
        log_index: the index of the entry in the log.
        integrated_time: the time of the entry in seconds since 1970, or None. Only the promise verifies it.
        promise: the log's signature over the previous four fields, or None.
        proof: sigstore's entry object, which contains an inclusion proof and a checkpoint, or None.

    Raises:
        RejectedError: the index or the time is out of range.
    """

    body: bytes
    log_id: bytes
    log_index: int
    integrated_time: int | None
    promise: bytes | None
    proof: Any = None

    def __post_init__(self) -> None:
        if not 0 <= self.log_index <= _LAST_INTEGER or not 0 <= (self.integrated_time or 0) <= _LAST_SECOND:
            raise RejectedError(RejectionReason.UNREADABLE, "the log entry has an invalid index or time")

    @property
    def promised_at(self) -> datetime | None:
        """The time at which the log added the entry, according to the promise; None if there is no promise."""
        if self.promise is None or self.integrated_time is None:
            return None
        return datetime.fromtimestamp(self.integrated_time, UTC)

    @property
    def proven_index(self) -> int:
        """The log index that the promise or the proof verifies. `log_index` is verified only by the promise."""
        return int(self.proof.inclusion_proof.log_index) if self.promise is None else self.log_index


@dataclass(frozen=True)
class SignatureEvidence:
    """A signature whose payload refers to the correct image, but whose signer is not verified yet.

    Attributes:
        format: `cosign-v2` or `cosign-v3`.
        source: the origin of the signature, for messages.
        signed: the signed bytes; None if only their digest is known.
        signed_digest: the SHA-256 of the signed bytes.
        payload_digest: the SHA-256 of the payload, which differs from `signed_digest` only for envelopes.
        signature: the raw bytes of the signature.
        enveloped: whether this is the signature of a DSSE envelope.
        certificate: the certificate of the signer, or None for a public key without a certificate.
        chain: untrusted certificates from the signature.
        hint: the key hint from the bundle, or None.
        record: the log entry, or None.
        timestamps: RFC 3161 timestamp responses for the signature, in DER.
        annotations: the signed claims, except the digest.
        bundle: the bundle as an object from sigstore, if sigstore can verify it.
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
        """Check that the signature was created with a key.

        Raises:
            RejectedError: the signature was not created with this key.
        """
        if self.signed is None:
            key.check_digest(self.signature, self.signed_digest)
        else:
            key.check(self.signature, self.signed)
