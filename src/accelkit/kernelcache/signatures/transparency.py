"""Checks for transparency log entries: their inclusion, their signature, and their time."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_public_key

from accelkit.kernelcache.signatures.documents import JSON_OBJECT, read_json
from accelkit.kernelcache.signatures.evidence import LogRecord, SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.keys import PublicKey, wrap_public_key
from accelkit.kernelcache.signatures.trust import TrustRoot

_CERTIFICATE_BEGIN = b"-----BEGIN CERTIFICATE-----"
_INTOTO = "intoto"
# The kinds of entries that contain the hash of an envelope's payload. Other kinds contain the hash of the signed bytes.
_OVER_PAYLOAD = frozenset({"dsse/0.0.1", "intoto/0.0.2"})


def check_record(evidence: SignatureEvidence, key: PublicKey, trust: TrustRoot) -> datetime | None:
    """Check the log entry of a signature.

    Args:
        evidence: the signature with its record.
        key: the key of the signer.
        trust: the trusted root with the logs.

    Returns:
        The time at which the log added the entry; None if only its inclusion is proven.

    Raises:
        RejectedError: no trusted log contains the entry, or the entry is for another signature.
    """
    record = evidence.record
    if record is None:
        raise RejectedError(RejectionReason.LOG_ENTRY_MISSING, "the signature has no entry in a transparency log")
    _check_inclusion(record, trust)
    body = read_json(record.body, JSON_OBJECT, "the log entry", RejectionReason.LOG_ENTRY_INVALID)
    try:
        expected = _read_statement(body)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"the log entry cannot be read: {exc}") from exc
    kind = f"{body.get('kind')}/{body.get('apiVersion')}"
    if expected is None:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"log entries of the kind {kind} are not supported")
    algorithm, value, signature, verifier = expected
    digest = evidence.payload_digest if kind in _OVER_PAYLOAD else evidence.signed_digest
    if algorithm != "sha256" or value != digest:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log entry refers to another payload")
    if signature != evidence.signature:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log entry refers to another signature")
    if not _names_signer(verifier, evidence, key):
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log entry refers to another signer")
    return record.promised_at


def check_log_trusted(record: LogRecord, trust: TrustRoot, at: datetime) -> None:
    """Check that a log was trusted at the time of a signature, because log keys have validity periods.

    Raises:
        RejectedError: the log was not trusted at that time.
    """
    _, period = trust.find_log(record.log_id)
    if at not in period:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"the log was not trusted at {at:%Y-%m-%d %H:%M:%S} UTC")


def is_intoto(record: LogRecord | None) -> bool:
    """Return whether an entry is of the kind `intoto`, the oldest kind for envelopes; False if it is unreadable."""
    try:
        body = json.loads(record.body) if record is not None else None
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("kind") == _INTOTO


def _check_inclusion(record: LogRecord, trust: TrustRoot) -> None:
    # Imported here, because signatures with a public key and without a log do not require sigstore.
    import rfc8785  # noqa: PLC0415
    from sigstore.errors import Error  # noqa: PLC0415

    from accelkit.kernelcache.signatures.sigstore_internals import verify_inclusion  # noqa: PLC0415

    keyring, _ = trust.find_log(record.log_id)
    if record.proof is None and record.promised_at is None:
        raise RejectedError(
            RejectionReason.LOG_ENTRY_INVALID, "the log entry has neither a promise nor a proof of its inclusion"
        )
    try:
        if record.proof is not None:
            verify_inclusion(record.proof, keyring)
        if record.promised_at is not None:
            statement = {
                "body": base64.b64encode(record.body).decode(),
                "integratedTime": record.integrated_time,
                "logID": record.log_id.hex(),
                "logIndex": record.log_index,
            }
            keyring.verify(key_id=record.log_id, signature=record.promise, data=rfc8785.dumps(statement))
    except (Error, ValueError) as exc:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"no trusted log contains this entry: {exc}") from exc


def _read_statement(body: dict[str, Any]) -> tuple[str, bytes, bytes, bytes] | None:
    """Return the hash algorithm, hash, signature and signer (PEM or DER) from an entry; None if it is unsupported."""
    spec = body["spec"]
    match body.get("kind"), body.get("apiVersion"):
        case "hashedrekord", "0.0.1":
            hashed, signed = spec["data"]["hash"], spec["signature"]
            return (
                hashed["algorithm"],
                bytes.fromhex(hashed["value"]),
                _decode_base64(signed["content"]),
                _decode_base64(signed["publicKey"]["content"]),
            )
        case "dsse", "0.0.1":
            hashed = spec["payloadHash"]
            (signed,) = spec["signatures"]
            return (
                hashed["algorithm"],
                bytes.fromhex(hashed["value"]),
                _decode_base64(signed["signature"]),
                _decode_base64(signed["verifier"]),
            )
        case "intoto", "0.0.2":
            return _read_intoto(spec["content"])
        case "hashedrekord", "0.0.2":
            inner = spec["hashedRekordV002"]
            hashed, signed = inner["data"], inner["signature"]
            algorithm = {"SHA2_256": "sha256"}.get(hashed["algorithm"], hashed["algorithm"])
            verifier = signed["verifier"]
            named = verifier.get("x509Certificate") or verifier["publicKey"]
            return (
                algorithm,
                _decode_base64(hashed["digest"]),
                _decode_base64(signed["content"]),
                _decode_base64(named["rawBytes"]),
            )
    return None


def _read_intoto(content: dict[str, Any]) -> tuple[str, bytes, bytes, bytes]:
    """Return the same values from an entry of the kind `intoto`. The log encodes its fields in base64 twice."""
    hashed, envelope = content["payloadHash"], content["envelope"]
    value = bytes.fromhex(hashed["value"])
    # The log removes the payload when it canonicalizes the entry. If the entry contains a payload, it must match the
    # hash.
    payload = envelope.get("payload")
    if payload is not None and hashlib.sha256(_decode_twice(payload)).digest() != value:
        raise ValueError("its payload does not match its hash")
    (signed,) = envelope["signatures"]
    return hashed["algorithm"], value, _decode_twice(signed["sig"]), _decode_base64(signed["publicKey"])


def _names_signer(verifier: bytes, evidence: SignatureEvidence, key: PublicKey) -> bool:
    if evidence.certificate is not None:
        if verifier == evidence.certificate.public_bytes(Encoding.DER):
            return True
        try:
            return verifier.lstrip().startswith(_CERTIFICATE_BEGIN) and (
                x509.load_pem_x509_certificate(verifier) == evidence.certificate
            )
        except ValueError:
            return False
    if verifier == key.der:
        return True
    try:
        return wrap_public_key(load_pem_public_key(verifier)).der == key.der
    except ValueError:
        return False


def _decode_twice(text: str) -> bytes:
    return base64.b64decode(_decode_base64(text), validate=True)


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
