"""Signatures that cosign 2 attaches as a separate image with the tag `sha256-….sig`, with one layer per payload.

The annotations of a layer contain the signature of the payload, the certificates and the log entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography import x509

from accelkit.kernelcache.signatures.bundles import decode_base64
from accelkit.kernelcache.signatures.documents import JSON_OBJECT, read_json
from accelkit.kernelcache.signatures.evidence import MAX_SIGNATURE_BYTES, LogRecord, SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
_CLAIM = "cosign container image signature"
_SIGNATURE = "dev.cosignproject.cosign/signature"
_CERTIFICATE = "dev.sigstore.cosign/certificate"
_CHAIN = "dev.sigstore.cosign/chain"
_BUNDLE = "dev.sigstore.cosign/bundle"
_TIMESTAMP = "dev.sigstore.cosign/rfc3161timestamp"
_LINE_BREAKS = {ord("\r"): None, ord("\n"): None}


class _Payload(msgspec.Struct, frozen=True, rename="camel"):
    body: str
    integrated_time: int
    log_index: int
    log_id: str = msgspec.field(name="logID")


class _Promise(msgspec.Struct, frozen=True, rename="pascal"):
    signed_entry_timestamp: str
    payload: _Payload


class _Timestamp(msgspec.Struct, frozen=True):
    response: str = msgspec.field(name="SignedRFC3161Timestamp")


_promise = msgspec.json.Decoder(_Promise)
_timestamp = msgspec.json.Decoder(_Timestamp)


def build_signature_tag(digest: str) -> str:
    """Return the tag of the signature image for a manifest."""
    return digest.replace(":", "-") + ".sig"


def read_image_evidence(payload: bytes, annotations: Mapping[str, str], digest: str, source: str) -> SignatureEvidence:
    """Return the signature from one layer of a signature image.

    Args:
        payload: the bytes of the layer, whose digest is already verified.
        annotations: the annotations of the layer.
        digest: the digest of the signed image's manifest.
        source: the origin of the layer, for messages.

    Raises:
        RejectedError: the layer cannot be read, or does not contain a signature of this image.
    """
    claims = _check_claim(payload, digest)
    if _SIGNATURE not in annotations:
        raise RejectedError(RejectionReason.UNREADABLE, f"the layer has no annotation {_SIGNATURE}")
    if sum(map(len, annotations.values())) > MAX_SIGNATURE_BYTES:
        raise RejectedError(
            RejectionReason.UNREADABLE, f"the layer's annotations are larger than {MAX_SIGNATURE_BYTES} bytes"
        )
    try:
        # cosign compares the log entry with the unchanged text. Therefore, the text must not contain line breaks if
        # there is a log entry.
        decode = decode_base64 if annotations.get(_BUNDLE) else _decode_lines
        signature = decode(annotations[_SIGNATURE])
        leaf = _load_certificates(annotations.get(_CERTIFICATE, ""))
        chain = _load_certificates(annotations.get(_CHAIN, ""))
        record = _read_record(annotations[_BUNDLE]) if annotations.get(_BUNDLE) else None
        stamped = annotations.get(_TIMESTAMP)
        stamps = (decode_base64(read_json(stamped.encode(), _timestamp, "the timestamp").response),) if stamped else ()
    except ValueError as exc:
        raise RejectedError(RejectionReason.UNREADABLE, f"an annotation of the layer cannot be read: {exc}") from exc
    return SignatureEvidence(
        format="cosign-v2",
        source=source,
        signed=payload,
        signed_digest=hashlib.sha256(payload).digest(),
        payload_digest=hashlib.sha256(payload).digest(),
        signature=signature,
        certificate=leaf[0] if leaf else None,
        chain=(*leaf[1:], *chain),
        record=record,
        timestamps=stamps,
        annotations=claims,
    )


def _check_claim(payload: bytes, digest: str) -> dict[str, str]:
    """Check the signed payload, and return its `optional` section."""
    fields = read_json(payload, JSON_OBJECT, "the payload")
    try:
        document = _lower_names(fields)
        critical = _lower_names(document["critical"])
        image = _lower_names(critical["image"])
        kind, named = critical["type"], image["docker-manifest-digest"]
        optional = (document.get("optional") or {}).items()
    except (KeyError, AttributeError) as exc:
        raise RejectedError(RejectionReason.UNREADABLE, f"the payload is not a claim about an image: {exc}") from exc
    if kind != _CLAIM:
        raise RejectedError(RejectionReason.NOT_A_SIGNATURE, f"the payload has the type {kind!r}")
    if named != digest:
        raise RejectedError(RejectionReason.SUBJECT_MISMATCH, f"the signature is for an image other than {digest}")
    return {name: value for name, value in optional if isinstance(value, str)}


def _lower_names(fields: dict[str, Any]) -> dict[str, Any]:
    # Go's parser ignores the case of field names, and the example in the format specification relies on this. If a name
    # appeared in two spellings, parsers could read different claims.
    lowered = {name.lower(): value for name, value in fields.items()}
    if len(lowered) != len(fields):
        raise KeyError("a field is repeated")
    return lowered


def _load_certificates(pem: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.encode()) if pem.strip() else []


def _decode_lines(text: str) -> bytes:
    """Decode base64 text that may contain line breaks, as in the output of programs such as `openssl` and `base64`."""
    return decode_base64(text.translate(_LINE_BREAKS))


def _read_record(text: str) -> LogRecord:
    promise = read_json(text.encode(), _promise, "the log entry")
    payload = promise.payload
    return LogRecord(
        body=decode_base64(payload.body),
        log_id=bytes.fromhex(payload.log_id),
        log_index=payload.log_index,
        integrated_time=payload.integrated_time,
        promise=decode_base64(promise.signed_entry_timestamp),
    )
