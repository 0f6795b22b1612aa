"""Verification that a signature is from a signer in a policy.

This module performs all checks. It uses the library `sigstore` for the log, the certificate log and timestamps. If
sigstore supports the kind of signature (a bundle with a Fulcio certificate and a log entry), sigstore must also accept
the signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.kernelcache.signatures.certificates import check_identity, check_path, read_key
from accelkit.kernelcache.signatures.evidence import SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.keys import PublicKey
from accelkit.kernelcache.signatures.signer_policy import Signer
from accelkit.kernelcache.signatures.timestamps import verify_timestamps
from accelkit.kernelcache.signatures.transparency import check_log_trusted, check_record, is_intoto
from accelkit.kernelcache.signatures.trust import TrustRoot


@dataclass(frozen=True)
class VerifiedSigner:
    """The verified signer of a signature, and the verified signing time.

    `issuer` is None for a key. `log_index` and `signed_at` are None if they are not verified.
    """

    identity: str
    issuer: str | None = None
    log_index: int | None = None
    signed_at: datetime | None = None


def judge_signature(evidence: SignatureEvidence, signer: Signer, trust: TrustRoot, now: datetime) -> VerifiedSigner:
    """Verify that a signature is from a signer. The payload must already have been checked.

    Args:
        evidence: the signature.
        signer: the expected signer.
        trust: Sigstore's trusted root, which is used only if the signer requires it.
        now: the time at which the certificate must be valid if there is no verified signing time.

    Raises:
        RejectedError: the signature is invalid or not from the signer.
    """
    try:
        verified = (
            _judge_by_key(evidence, signer, trust, now)
            if signer.keys
            else _judge_by_certificate(evidence, signer, trust, now)
        )
    except RejectedError:
        raise
    except Exception as exc:
        # Four libraries parse untrusted data here. If they raise any other error, the signature is also rejected.
        raise RejectedError(
            RejectionReason.UNREADABLE, f"cannot verify the signature: {type(exc).__name__}: {exc}"
        ) from exc
    for name, value in signer.annotations.items():
        if evidence.annotations.get(name) != value:
            raise RejectedError(RejectionReason.ANNOTATION_MISMATCH, f"the signature lacks the claim {name}={value}")
    return verified


def _judge_by_key(evidence: SignatureEvidence, signer: Signer, trust: TrustRoot, now: datetime) -> VerifiedSigner:
    if evidence.certificate is not None:
        raise RejectedError(RejectionReason.OTHER_KIND, "the signature was made with a certificate, not with a key")
    hinted = [key for key in signer.keys if key.hint == evidence.hint]
    rejected = RejectedError(RejectionReason.SIGNATURE_INVALID, "the signature was not made with any of the keys")
    # A hint is not binding. If no key matches the hint, all keys are tried.
    for key in hinted or signer.keys:
        try:
            evidence.check(key)
        except RejectedError as exc:
            rejected = exc
            continue
        if evidence.record is None:
            if signer.log_required:
                raise RejectedError(
                    RejectionReason.LOG_ENTRY_MISSING, "the signature has no entry in a transparency log"
                )
            return VerifiedSigner(key.fingerprint)
        times = _verify_times(evidence, key, trust)
        for at in times or [now]:
            _check_log(evidence, trust, at)
        return VerifiedSigner(
            key.fingerprint, log_index=_read_proven_index(evidence), signed_at=min(times) if times else None
        )
    raise rejected


def _judge_by_certificate(
    evidence: SignatureEvidence, signer: Signer, trust: TrustRoot, now: datetime
) -> VerifiedSigner:
    certificate = evidence.certificate
    if certificate is None:
        raise RejectedError(RejectionReason.OTHER_KIND, "the signature was made with a key, not with a certificate")
    if evidence.record is None and signer.log_required:
        raise RejectedError(RejectionReason.LOG_ENTRY_MISSING, "the signature has no entry in a transparency log")
    key = read_key(certificate)
    evidence.check(key)
    times = _verify_times(evidence, key, trust)
    path: list[x509.Certificate] = []
    for at in times or [now]:
        _check_log(evidence, trust, at)
        authorities = trust.find_authorities(at) if signer.authorities is None else signer.authorities
        path = check_path(certificate, evidence.chain, authorities, at, private=_names_private_subject(signer))
    if signer.keyless:
        _check_promise_of_certificate_log(certificate, path, trust)
    identity, issuer = check_identity(certificate, signer.issuer, signer.subject)
    # sigstore supports only certificates for ECDSA keys, and does not support log entries of the kind `intoto`.
    supported = isinstance(key.key, ec.EllipticCurvePublicKey) and not is_intoto(evidence.record)
    if signer.keyless and evidence.bundle is not None and supported:
        _check_with_sigstore(evidence, trust)
    return VerifiedSigner(identity, issuer, _read_proven_index(evidence), min(times) if times else None)


def _names_private_subject(signer: Signer) -> bool:
    """Return whether a signer uses a private authority and requires a subject.

    cosign always requires a subject, and accepts certificates without an extended key usage. If the policy requires no
    subject, a certificate without this usage could belong to any server or client of the authority.
    """
    return signer.authorities is not None and signer.subject is not None


def _verify_times(evidence: SignatureEvidence, key: PublicKey, trust: TrustRoot) -> list[datetime]:
    """Check the log entry, and return the signing times from timestamp authorities and from the log."""
    times = verify_timestamps(evidence, trust.timestampers) if evidence.timestamps else []
    if evidence.record is not None and (moment := check_record(evidence, key, trust)) is not None:
        times.append(moment)
    return times


def _check_log(evidence: SignatureEvidence, trust: TrustRoot, at: datetime) -> None:
    if evidence.record is not None:
        check_log_trusted(evidence.record, trust, at)


def _read_proven_index(evidence: SignatureEvidence) -> int | None:
    return None if evidence.record is None else evidence.record.proven_index


def _check_promise_of_certificate_log(
    certificate: x509.Certificate, path: list[x509.Certificate], trust: TrustRoot
) -> None:
    from sigstore.errors import Error  # noqa: PLC0415 - loaded only if needed

    from accelkit.kernelcache.signatures.sigstore_internals import (  # noqa: PLC0415 - the same
        verify_certificate_log_promise,
    )

    keys = trust.find_certificate_logs(certificate.not_valid_before_utc)
    if not path:
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "the certificate belongs to an authority, not to a signer")
    try:
        verify_certificate_log_promise(certificate, path, keys)
    except (Error, ValueError) as exc:
        raise RejectedError(
            RejectionReason.UNTRUSTED_ROOT, f"the certificate has no promise from a trusted certificate log: {exc}"
        ) from exc


def _check_with_sigstore(evidence: SignatureEvidence, trust: TrustRoot) -> None:
    from sigstore.errors import Error  # noqa: PLC0415 - loaded only if needed
    from sigstore.hashes import Hashed  # noqa: PLC0415 - the same
    from sigstore.verify.policy import UnsafeNoOp  # noqa: PLC0415 - the same
    from sigstore_models.common.v1 import HashAlgorithm  # noqa: PLC0415 - the same

    # The identity is already checked, using regular expressions that sigstore does not support.
    any_identity = UnsafeNoOp()
    try:
        if evidence.enveloped:
            trust.verifier.verify_dsse(evidence.bundle, any_identity)
        else:
            hashed = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=evidence.signed_digest)
            trust.verifier.verify_artifact(hashed, evidence.bundle, any_identity)
    except (Error, ValueError) as exc:
        raise RejectedError(RejectionReason.SIGNATURE_INVALID, f"sigstore rejected the signature: {exc}") from exc
