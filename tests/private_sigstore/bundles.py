"""Signatures as cosign 3 makes them: Sigstore bundles of version 0.3."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from cryptography.hazmat.primitives.serialization import Encoding

from private_sigstore.authority import Signer
from private_sigstore.keys import LogIdentity, b64
from private_sigstore.rekor import dsse_body, hashedrekord_body, logged

__all__ = [
    "BUNDLE",
    "BUNDLE_V0_2",
    "SIGN_PREDICATE",
    "bundle_v3",
    "edited",
    "edited_entry",
    "log_body",
    "message_signature_bundle",
]

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
# The last version in which certificate chains may stand: cosign 3.1.1 does not read them in version 0.3.
BUNDLE_V0_2 = "application/vnd.dev.sigstore.bundle+json;version=0.2"
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"

Material = Literal["certificate", "x509CertificateChain", "publicKey"]


def bundle_v3(
    signer: Signer,
    digest: str,
    *,
    predicate_type: str = SIGN_PREDICATE,
    statement_type: str = "https://in-toto.io/Statement/v1",
    payload_type: str = "application/vnd.in-toto+json",
    subjects: Sequence[str] | None = None,
    annotations: Mapping[str, str] | None = None,
    signatures: int = 1,
    tlog: bool = True,
    rekor: LogIdentity | None = None,
    integrated_time: datetime | None = None,
    body: bytes | None = None,
    material: Material | None = None,
    media_type: str = BUNDLE,
    stamps: Callable[[bytes], Sequence[bytes]] | None = None,
) -> bytes:
    """Sign an image's digest, as JSON.

    Args:
        signer: who signs.
        digest: `sha256:` and 64 hexadecimal digits.
        predicate_type: what the statement says of its subjects.
        statement_type: the version of the statement.
        payload_type: the type of what the envelope holds.
        subjects: the digests that the statement is about, instead of `digest` alone.
        annotations: of each subject.
        signatures: how many the envelope carries, all by the signer.
        tlog: whether the log has an entry.
        rekor: the log, instead of the signer's own.
        integrated_time: when the log says it took the entry, instead of the signer's time.
        body: what the log has, instead of an entry for this envelope.
        material: how the verification material names the signer, instead of as is usual.
        media_type: the bundle's version.
        stamps: the answers of timestamp authorities; called with the signature.
    """
    subject = [_subject(each, annotations) for each in ([digest] if subjects is None else subjects)]
    statement = {"_type": statement_type, "subject": subject, "predicateType": predicate_type, "predicate": {}}
    payload = json.dumps(statement, separators=(",", ":")).encode()
    signed = [signer.key.sign(_pae(payload_type, payload)) for _ in range(signatures)]
    listed = [{"sig": b64(each)} for each in signed]
    envelope = {"payload": b64(payload), "payloadType": payload_type, "signatures": listed}
    if body is None:
        body = dsse_body(json.dumps(envelope).encode(), payload, signed, signer.verifier_pem)
    entry = logged(rekor or signer.rekor, body, at=integrated_time or signer.at).as_bundle() if tlog else None
    verification = _material(signer, material or _usual_material(signer, media_type))
    if stamps is not None:
        answers = [{"signedTimestamp": b64(each)} for each in stamps(signed[0])]
        verification["timestampVerificationData"] = {"rfc3161Timestamps": answers}
    return _bundle(media_type, verification, entry, {"dsseEnvelope": envelope})


def message_signature_bundle(
    signer: Signer,
    data: bytes,
    *,
    tlog: bool = True,
    rekor: LogIdentity | None = None,
    integrated_time: datetime | None = None,
    body: bytes | None = None,
    material: Material | None = None,
    media_type: str = BUNDLE,
) -> bytes:
    """Sign data as a blob, without a statement: for an image's manifest, what must not count as its signature."""
    signature = signer.key.sign(data)
    body = body or hashedrekord_body(data, signature, signer.verifier_pem)
    entry = logged(rekor or signer.rekor, body, at=integrated_time or signer.at).as_bundle() if tlog else None
    message = {"algorithm": "SHA2_256", "digest": b64(hashlib.sha256(data).digest())}
    content = {"messageSignature": {"messageDigest": message, "signature": b64(signature)}}
    return _bundle(media_type, _material(signer, material or _usual_material(signer, media_type)), entry, content)


def log_body(bundle: bytes) -> bytes:
    """The body of the bundle's log entry, to be given to another bundle."""
    return base64.b64decode(json.loads(bundle)["verificationMaterial"]["tlogEntries"][0]["canonicalizedBody"])


def edited(document: bytes, change: Callable[[Any], object]) -> bytes:
    """A JSON document after `change` was called with it."""
    content = json.loads(document)
    change(content)
    return json.dumps(content).encode()


def edited_entry(bundle: bytes, change: Callable[[Any], object]) -> bytes:
    """A bundle after `change` was called with its log entry."""
    return edited(bundle, lambda document: change(document["verificationMaterial"]["tlogEntries"][0]))


def _bundle(media_type: str, material: dict[str, Any], entry: dict[str, Any] | None, content: dict[str, Any]) -> bytes:
    if entry is not None:
        material["tlogEntries"] = [entry]
    return json.dumps({"mediaType": media_type, "verificationMaterial": material, **content}).encode()


def _usual_material(signer: Signer, media_type: str) -> Material:
    if signer.certificate is None:
        return "publicKey"
    return "x509CertificateChain" if media_type.endswith(("=0.1", "=0.2")) else "certificate"


def _material(signer: Signer, kind: Material) -> dict[str, Any]:
    if kind == "publicKey":
        return {"publicKey": {"hint": b64(signer.key.fingerprint)}}
    assert signer.certificate is not None, "a plain key has no certificate"
    # The root stays out: the verifier has its own.
    chain = [{"rawBytes": b64(each.public_bytes(Encoding.DER))} for each in (signer.certificate, *signer.chain[:-1])]
    return {"certificate": chain[0]} if kind == "certificate" else {"x509CertificateChain": {"certificates": chain}}


def _subject(digest: str, annotations: Mapping[str, str] | None) -> dict[str, Any]:
    algorithm, _, value = digest.partition(":")
    subject: dict[str, Any] = {"digest": {algorithm: value}}
    return subject if annotations is None else {**subject, "annotations": dict(annotations)}


def _pae(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
