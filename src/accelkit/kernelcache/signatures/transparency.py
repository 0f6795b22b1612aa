"""Entries of the transparency log: whether it has one, whether that is about this signature, and when it came in."""

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
# Kinds of entries that hash what an envelope holds; the others hash what the signature is over.
_OVER_PAYLOAD = frozenset({"dsse/0.0.1", "intoto/0.0.2"})


def check_record(evidence: SignatureEvidence, key: PublicKey, trust: TrustRoot) -> datetime | None:
    """Check the log's entry for a signature.

    Args:
        evidence: the signature; it has a record.
        key: whose signature it is.
        trust: the logs.

    Returns:
        When the log took it, or None where the log only proves that it has it.

    Raises:
        RejectedError: no log of ours has it, or what it has is about something else.
    """
    record = evidence.record
    if record is None:
        raise RejectedError(RejectionReason.LOG_ENTRY_MISSING, "the signature has no entry of a transparency log")
    _prove(record, trust)
    body = read_json(record.body, JSON_OBJECT, "the log's entry", RejectionReason.LOG_ENTRY_INVALID)
    try:
        expected = _read_statement(body)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"the log's entry cannot be read: {exc}") from exc
    kind = f"{body.get('kind')}/{body.get('apiVersion')}"
    if expected is None:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"entries of the kind {kind} are not known")
    algorithm, value, signature, verifier = expected
    over = evidence.payload_digest if kind in _OVER_PAYLOAD else evidence.signed_digest
    if algorithm != "sha256" or value != over:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log's entry is about another payload")
    if signature != evidence.signature:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log's entry is about another signature")
    if not _names_signer(verifier, evidence, key):
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, "the log's entry names another signer")
    return record.promised_at


def check_log_trusted(record: LogRecord, trust: TrustRoot, at: datetime) -> None:
    """Check that the log was to be trusted when a signature was made: keys of logs are retired.

    Raises:
        RejectedError: it was not.
    """
    _, period = trust.find_log(record.log_id)
    if at not in period:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"the log was not trusted at {at:%Y-%m-%d %H:%M:%S} UTC")


def is_intoto(record: LogRecord | None) -> bool:
    """Whether an entry is of the log's oldest kind for envelopes, as far as it can be read."""
    try:
        body = json.loads(record.body) if record is not None else None
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("kind") == _INTOTO


def _prove(record: LogRecord, trust: TrustRoot) -> None:
    # Here, because plain keys without a log need nothing of sigstore.
    import rfc8785  # noqa: PLC0415
    from sigstore.errors import Error  # noqa: PLC0415
    from sigstore.models import TransparencyLogEntry  # noqa: PLC0415

    keyring, _ = trust.find_log(record.log_id)
    if record.proof is None and record.promised_at is None:
        raise RejectedError(
            RejectionReason.LOG_ENTRY_INVALID, "the log neither promises nor proves that it has the entry"
        )
    try:
        if record.proof is not None:
            TransparencyLogEntry(record.proof)._verify(keyring)  # noqa: SLF001 - the one way to check inclusion
        if record.promised_at is not None:
            statement = {
                "body": base64.b64encode(record.body).decode(),
                "integratedTime": record.integrated_time,
                "logID": record.log_id.hex(),
                "logIndex": record.log_index,
            }
            keyring.verify(key_id=record.log_id, signature=record.promise, data=rfc8785.dumps(statement))
    except (Error, ValueError) as exc:
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"no trusted log has this entry: {exc}") from exc


def _read_statement(body: dict[str, Any]) -> tuple[str, bytes, bytes, bytes] | None:
    """Hash algorithm, hash, signature and signer of an entry; the signer as PEM or DER. None for an unknown kind."""
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
    """Read an entry with an envelope in it. The log wraps what is base64 already once more."""
    hashed, envelope = content["payloadHash"], content["envelope"]
    value = bytes.fromhex(hashed["value"])
    # The log drops the payload where it canonicalises the entry; one that is there must be what the hash says.
    payload = envelope.get("payload")
    if payload is not None and hashlib.sha256(_decode_twice(payload)).digest() != value:
        raise ValueError("its payload has another hash than it says")
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
