"""Verification of bundles for files, which the client protocol of Sigstore's conformance suite requires."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.bundles import read_bundle, read_envelope_evidence, read_material
from accelkit.kernelcache.signatures.documents import read_json
from accelkit.kernelcache.signatures.evidence import MAX_SIGNATURE_BYTES, SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.signature_check import VerifiedSigner, judge_signature
from accelkit.kernelcache.signatures.signer_policy import Signer
from accelkit.kernelcache.signatures.trust import TrustRoot

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_SUBJECT_LIMIT = 1 << 20


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str]


class _Statement(msgspec.Struct, frozen=True):
    subject: list[_Subject]


_statement = msgspec.json.Decoder(_Statement)


def verify_artifact(bundle: Path, artifact: str, signer: Signer, trust: TrustRoot) -> VerifiedSigner:
    """Verify a bundle for a file.

    Args:
        bundle: the path of the bundle.
        artifact: the path of the file, or its digest (`sha256:…`).
        signer: the required signer.
        trust: Sigstore's trusted root.

    Raises:
        ConfigurationError: a file cannot be read.
        RejectedError: the bundle does not contain a valid signature of the file from this signer.
    """
    try:
        if bundle.stat().st_size > MAX_SIGNATURE_BYTES:
            raise RejectedError(RejectionReason.UNREADABLE, f"the bundle is larger than {MAX_SIGNATURE_BYTES} bytes")
        content = bundle.read_bytes()
    except OSError as exc:
        raise ConfigurationError(f"cannot read the bundle {bundle}: {exc}") from exc
    return judge_signature(_read_evidence(content, artifact), signer, trust, datetime.now(UTC))


def _read_evidence(content: bytes, artifact: str) -> SignatureEvidence:
    bundle = read_bundle(content)
    digest, data = _hash_artifact(artifact)
    if bundle.dsse_envelope is not None:
        evidence = read_envelope_evidence(bundle, "bundle")
        statement = read_json(bundle.dsse_envelope.payload, _statement, "the statement in the envelope")
        if not any(each.digest.get("sha256") == digest.hex() for each in statement.subject):
            raise RejectedError(
                RejectionReason.SUBJECT_MISMATCH, f"the bundle signs a file other than sha256:{digest.hex()}"
            )
        return evidence
    message = bundle.message_signature
    if message.message_digest is not None and message.message_digest.digest != digest:
        raise RejectedError(
            RejectionReason.SUBJECT_MISMATCH, f"the bundle signs a file other than sha256:{digest.hex()}"
        )
    return SignatureEvidence(
        format="cosign-v3",
        source="bundle",
        signed=data,
        signed_digest=digest,
        payload_digest=digest,
        signature=message.signature,
        **read_material(bundle),
    )


def _hash_artifact(artifact: str) -> tuple[bytes, bytes | None]:
    """Return the SHA-256 digest of an artifact. If it is a small file, also return its content; otherwise, None."""
    path = Path(artifact)
    if path.is_file():
        try:
            data = path.read_bytes() if path.stat().st_size <= _SUBJECT_LIMIT else None
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").digest(), data
        except OSError as exc:
            raise ConfigurationError(f"cannot read {artifact}: {exc}") from exc
    if found := _DIGEST.fullmatch(artifact):
        return bytes.fromhex(found[1]), None
    raise ConfigurationError(f"{artifact} is neither a file nor sha256: with 64 hexadecimal digits")
