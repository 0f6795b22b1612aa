"""Sigstore bundles that cosign 3 attaches to an image: DSSE envelopes with in-toto statements."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import msgspec
from cryptography import x509

from accelkit.kernelcache.oci.documents import OCI_EMPTY, Descriptor
from accelkit.kernelcache.signatures.documents import JSON_OBJECT, read_json
from accelkit.kernelcache.signatures.evidence import MAX_SIGNATURE_BYTES, LogRecord, SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

# The predicate type of image signatures. All other predicate types are attestations about the image.
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
# The annotation in which cosign repeats the predicate type outside the bundle as a hint.
PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
BUNDLE_TYPE_PREFIX = "application/vnd.dev.sigstore.bundle"
_IN_TOTO = "application/vnd.in-toto+json"
_STATEMENTS = frozenset({"https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"})
_MAX_SUBJECTS = 256


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str]
    annotations: dict[str, str] | None = None


class _Statement(msgspec.Struct, frozen=True, rename={"kind": "_type", "predicate_type": "predicateType"}):
    kind: str
    predicate_type: str
    subject: list[_Subject]


_statement = msgspec.json.Decoder(_Statement)


def may_be_bundle(referrer: Descriptor) -> bool:
    """Return whether an entry in a list of referrers may be a bundle. Only the type in its manifest is reliable.

    Some lists contain entries without a type, or with the type of the empty configuration, which cosign 3 writes.
    """
    return referrer.artifact_type in {"", OCI_EMPTY} or referrer.artifact_type.startswith(BUNDLE_TYPE_PREFIX)


def read_bundle(content: bytes) -> Any:
    """Parse a bundle of any version.

    Returns:
        A bundle object from `sigstore_models`, which supports all kinds of verification material.

    Raises:
        RejectedError: the content is not a bundle.
    """
    from sigstore_models.bundle.v1 import Bundle  # noqa: PLC0415 - loaded only if needed

    if len(content) > MAX_SIGNATURE_BYTES:
        raise RejectedError(RejectionReason.UNREADABLE, f"the bundle is larger than {MAX_SIGNATURE_BYTES} bytes")
    document = read_json(content, JSON_OBJECT, "the bundle")
    try:
        # A bundle without a log entry omits the list of log entries, which the models require.
        document["verificationMaterial"].setdefault("tlogEntries", [])
        return Bundle.from_json(msgspec.json.encode(document))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise RejectedError(RejectionReason.UNREADABLE, f"the bundle cannot be read: {_shorten(exc)}") from exc


def read_image_evidence(content: bytes, digest: str, source: str) -> SignatureEvidence:
    """Return the image signature from a bundle.

    Args:
        content: the JSON of the bundle.
        digest: the digest of the image's manifest.
        source: the origin of the bundle, for messages.

    Raises:
        RejectedError: the bundle cannot be read, is not an image signature, or is a signature for another image.
    """
    bundle = read_bundle(content)
    envelope = bundle.dsse_envelope
    if envelope is None:
        raise RejectedError(RejectionReason.NOT_A_SIGNATURE, "the bundle signs a file, not an image")
    if envelope.payload_type != _IN_TOTO:
        raise RejectedError(
            RejectionReason.NOT_A_SIGNATURE, f"the envelope contains the type {envelope.payload_type}, not a statement"
        )
    annotations = _check_statement(envelope.payload, digest)
    return replace(read_envelope_evidence(bundle, source), annotations=annotations)


def read_envelope_evidence(bundle: Any, source: str) -> SignatureEvidence:
    """Return the envelope signature from a bundle without checking the payload.

    Raises:
        RejectedError: the verification material cannot be read.
    """
    envelope = bundle.dsse_envelope
    if len(envelope.signatures) != 1:
        raise RejectedError(
            RejectionReason.UNREADABLE, f"the envelope has {len(envelope.signatures)} signatures instead of one"
        )
    signed = encode_pae(envelope.payload_type, envelope.payload)
    return SignatureEvidence(
        format="cosign-v3",
        source=source,
        signed=signed,
        signed_digest=hashlib.sha256(signed).digest(),
        payload_digest=hashlib.sha256(envelope.payload).digest(),
        signature=envelope.signatures[0].sig,
        enveloped=True,
        **read_material(bundle),
    )


def encode_pae(payload_type: str, payload: bytes) -> bytes:
    """Return the signed bytes of an envelope (pre-authentication encoding): its type and payload, and their lengths."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _check_statement(payload: bytes, digest: str) -> dict[str, str]:
    statement = read_json(payload, _statement, "the statement in the envelope")
    if statement.kind not in _STATEMENTS:
        raise RejectedError(RejectionReason.UNREADABLE, f"statements of the type {statement.kind} are not supported")
    if statement.predicate_type != SIGN_PREDICATE:
        raise RejectedError(
            RejectionReason.NOT_A_SIGNATURE,
            f"the statement has the predicate {statement.predicate_type}, which is not a signature",
        )
    wanted = digest.removeprefix("sha256:")
    for subject in statement.subject[:_MAX_SUBJECTS]:
        if subject.digest.get("sha256") == wanted:
            return subject.annotations or {}
    raise RejectedError(RejectionReason.SUBJECT_MISMATCH, f"the signature is for an image other than {digest}")


def read_material(bundle: Any) -> dict[str, Any]:
    """Return the fields of `SignatureEvidence` that a bundle's verification material contains.

    Raises:
        RejectedError: a certificate cannot be read, or the material contains more than one log entry.
    """
    material = bundle.verification_material
    given = [material.certificate] if material.certificate else []
    if material.x509_certificate_chain:
        given = list(material.x509_certificate_chain.certificates)
    try:
        certificates = [x509.load_der_x509_certificate(each.raw_bytes) for each in given]
    except ValueError as exc:
        raise RejectedError(RejectionReason.UNREADABLE, f"a certificate of the bundle cannot be read: {exc}") from exc
    if not certificates and not material.public_key:
        raise RejectedError(RejectionReason.UNREADABLE, "the bundle contains neither a key nor a certificate")
    if len(material.tlog_entries) > 1:
        raise RejectedError(RejectionReason.UNREADABLE, "the bundle has several log entries")
    record = _convert_record(material.tlog_entries[0]) if material.tlog_entries else None
    stamps = material.timestamp_verification_data
    return {
        "certificate": certificates[0] if certificates else None,
        "chain": tuple(certificates[1:]),
        "hint": material.public_key.hint or None if material.public_key else None,
        "record": record,
        "timestamps": tuple(each.signed_timestamp for each in stamps.rfc3161_timestamps) if stamps else (),
        "bundle": _convert_for_sigstore(bundle),
    }


def _convert_record(entry: Any) -> LogRecord:
    promise = entry.inclusion_promise
    return LogRecord(
        body=entry.canonicalized_body,
        log_id=entry.log_id.key_id,
        log_index=entry.log_index,
        integrated_time=entry.integrated_time,
        promise=promise.signed_entry_timestamp if promise else None,
        proof=entry,
    )


def _convert_for_sigstore(bundle: Any) -> Any:
    """Convert a bundle to an object from `sigstore`; return None if `sigstore` does not support this kind of bundle."""
    from sigstore.errors import Error  # noqa: PLC0415 - loaded only if needed
    from sigstore.models import Bundle  # noqa: PLC0415 - the same

    try:
        return Bundle(bundle)
    except (Error, ValueError):
        return None


def _shorten(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__).splitlines()[0][:200]


def decode_base64(text: str) -> bytes:
    """Decode base64 text strictly.

    Raises:
        ValueError: the text is not base64.
    """
    return base64.b64decode(text, validate=True)
