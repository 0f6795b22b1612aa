"""Whether one signature is by one signer of a policy.

`sigstore` judges what it can: certificates of Fulcio with an entry of the log, in a bundle. The rest (plain keys,
private authorities, cosign 2, no log) is judged here, with sigstore's own parts for log, certificate log and time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509

from accelkit.kernelcache.signatures.certificates import check_identity, check_path, key_of
from accelkit.kernelcache.signatures.evidence import Evidence
from accelkit.kernelcache.signatures.findings import Reason, RejectedError
from accelkit.kernelcache.signatures.policy import Signer
from accelkit.kernelcache.signatures.timestamps import proven_times
from accelkit.kernelcache.signatures.transparency import check_record
from accelkit.kernelcache.signatures.trust import TrustRoot


@dataclass(frozen=True)
class Held:
    """Who signed, and what is proven about when. `log_index` and `signed_at` are None where nothing proves them."""

    identity: str
    issuer: str = ""
    log_index: int | None = None
    signed_at: datetime | None = None


def judge(evidence: Evidence, signer: Signer, trust: TrustRoot, now: datetime) -> Held:
    """Judge a signature whose claim is about the right image.

    Args:
        evidence: the signature.
        signer: who should have made it.
        trust: Sigstore's root, used as far as the signer needs it.
        now: the moment at which a certificate without any proven time must be valid.

    Raises:
        RejectedError: with the reason.
    """
    held = _by_key(evidence, signer, trust) if signer.keys else _by_certificate(evidence, signer, trust, now)
    for name, value in signer.annotations.items():
        if evidence.annotations.get(name) != value:
            raise RejectedError(Reason.ANNOTATION_MISMATCH, f"the signature does not say {name}={value}")
    return held


def _by_key(evidence: Evidence, signer: Signer, trust: TrustRoot) -> Held:
    if evidence.certificate is not None:
        raise RejectedError(Reason.OTHER_KIND, "it is by a certificate, not by a key")
    named = [key for key in signer.keys if key.hint == evidence.hint]
    rejected = RejectedError(Reason.SIGNATURE_INVALID, "the signature is by none of the keys")
    # A hint is a hint: without a match, each key is tried.
    for key in named or signer.keys:
        try:
            evidence.check(key)
        except RejectedError as exc:
            rejected = exc
            continue
        moment = check_record(evidence, key, trust) if signer.log_required or evidence.record is not None else None
        index = evidence.record.log_index if evidence.record is not None else None
        return Held(key.fingerprint, log_index=index, signed_at=moment)
    raise rejected


def _by_certificate(evidence: Evidence, signer: Signer, trust: TrustRoot, now: datetime) -> Held:
    certificate = evidence.certificate
    if certificate is None:
        raise RejectedError(Reason.OTHER_KIND, "it is by a key, not by a certificate")
    if evidence.record is None and signer.log_required:
        raise RejectedError(Reason.LOG_ENTRY_MISSING, "the signature has no entry of a transparency log")
    if signer.keyless and evidence.bundle is not None and evidence.record is not None:
        return _by_sigstore(evidence, certificate, signer, trust)
    key = key_of(certificate)
    evidence.check(key)
    times = proven_times(evidence, trust.timestampers)
    if evidence.record is not None and (moment := check_record(evidence, key, trust)) is not None:
        times.append(moment)
    path: list[x509.Certificate] = []
    for at in times or [now]:
        authorities = trust.fulcio(at) if signer.authorities is None else signer.authorities
        path = check_path(certificate, evidence.chain, authorities, at)
    if signer.keyless:
        _check_promise_of_certificate_log(certificate, path, trust)
    identity, issuer = check_identity(certificate, signer.issuer, signer.subject)
    index = evidence.record.log_index if evidence.record is not None else None
    return Held(identity, issuer, index, min(times) if times else None)


def _check_promise_of_certificate_log(
    certificate: x509.Certificate, path: list[x509.Certificate], trust: TrustRoot
) -> None:
    from sigstore._internal.sct import verify_sct  # noqa: PLC0415 - sigstore offers it in no other way
    from sigstore.errors import Error  # noqa: PLC0415 - loaded where it is needed

    try:
        verify_sct(certificate, path, trust.certificate_logs)
    except (Error, ValueError) as exc:
        raise RejectedError(
            Reason.UNTRUSTED_ROOT, f"no trusted certificate log promised this certificate: {exc}"
        ) from exc


def _by_sigstore(evidence: Evidence, certificate: x509.Certificate, signer: Signer, trust: TrustRoot) -> Held:
    from sigstore.errors import CertValidationError, Error  # noqa: PLC0415 - as above
    from sigstore.hashes import Hashed  # noqa: PLC0415 - as above
    from sigstore_models.common.v1 import HashAlgorithm  # noqa: PLC0415 - as above

    owner = _Owner(signer)
    try:
        if evidence.enveloped:
            trust.verifier.verify_dsse(evidence.bundle, owner)
        else:
            hashed = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=evidence.signed_digest)
            trust.verifier.verify_artifact(hashed, evidence.bundle, owner)
    except RejectedError:
        raise
    except CertValidationError as exc:
        raise RejectedError(_of_path(evidence, certificate), str(exc)) from exc
    except (Error, ValueError) as exc:
        message = str(exc)
        # sigstore has one error for all; its words are for the reader, the code for the program.
        for mark, reason in _MARKS.items():
            if mark in message:
                raise RejectedError(reason, message) from exc
        raise RejectedError(Reason.SIGNATURE_INVALID, message) from exc
    record = evidence.record
    moment = None
    if record is not None and record.integrated_time is not None and record.promise is not None:
        moment = check_record(evidence, key_of(certificate), trust)
    times = [*proven_times(evidence, trust.timestampers), *([moment] if moment is not None else [])]
    for at in times:
        # sigstore trusts an authority for all times; the root says from when to when.
        check_path(certificate, evidence.chain, trust.fulcio(at), at)
    return Held(owner.identity, owner.issuer, record.log_index if record else None, min(times) if times else None)


_MARKS = {
    "SCT": Reason.UNTRUSTED_ROOT,
    "expired at time of signing": Reason.CERTIFICATE_EXPIRED,
    "log entry": Reason.LOG_ENTRY_INVALID,
    "not enough sources of verified time": Reason.LOG_ENTRY_INVALID,
    "Key usage": Reason.UNTRUSTED_ROOT,
    "Extended usage": Reason.UNTRUSTED_ROOT,
}


def _of_path(evidence: Evidence, certificate: x509.Certificate) -> Reason:
    seconds = evidence.record.integrated_time if evidence.record is not None else None
    if seconds is None:
        return Reason.UNTRUSTED_ROOT
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return Reason.UNTRUSTED_ROOT if begin <= seconds <= end else Reason.CERTIFICATE_EXPIRED


class _Owner:
    """sigstore's form of a policy: looks at a certificate once it is proven."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self.identity = ""
        self.issuer = ""

    def verify(self, cert: Any) -> None:
        self.identity, self.issuer = check_identity(cert, self._signer.issuer, self._signer.subject)
