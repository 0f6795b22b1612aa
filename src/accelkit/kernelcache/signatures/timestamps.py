"""Verification of signed timestamps (RFC 3161) that authorities in the trusted root issued for signatures."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accelkit.kernelcache.signatures.evidence import SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

_MAX_TIMESTAMPS = 32
# An authority has at least a signing certificate and a root certificate.
_SHORTEST_CHAIN = 2


def verify_timestamps(evidence: SignatureEvidence, authorities: tuple[Any, ...]) -> list[datetime]:
    """Return the verified times in the timestamps of a signature; empty if it has no timestamps.

    Args:
        evidence: the signature.
        authorities: the timestamp authorities of the trusted root.

    Raises:
        RejectedError: the signature has timestamps, but no timestamp is from a trusted authority.
    """
    # Imported here, because few signatures have timestamps.
    from rfc3161_client import decode_timestamp_response  # noqa: PLC0415

    if not evidence.timestamps:
        return []
    if len(evidence.timestamps) > _MAX_TIMESTAMPS:
        raise RejectedError(RejectionReason.UNREADABLE, f"the signature has more than {_MAX_TIMESTAMPS} timestamps")
    try:
        decoded = [decode_timestamp_response(each) for each in set(evidence.timestamps)]
        found = [
            moment
            for each in decoded
            if (moment := verify_timestamp(each, evidence.signature, authorities)) is not None
        ]
    except ValueError as exc:
        raise RejectedError(RejectionReason.UNREADABLE, f"a timestamp cannot be read: {exc}") from exc
    if not found:
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "no timestamp of the signature is from a trusted authority")
    return found


def verify_timestamp(response: Any, signature: bytes, authorities: tuple[Any, ...]) -> datetime | None:
    """Return the time in a timestamp, or None if no authority issued it within its validity period."""
    from rfc3161_client import VerificationError  # noqa: PLC0415 - as above

    moment: datetime = response.tst_info.gen_time
    for authority in authorities:
        end = authority.validity_period_end
        if not authority.validity_period_start <= moment or (end is not None and moment > end):
            continue
        try:
            verifier = _build_verifier(authority.certificates(allow_expired=True))
            if verifier is not None:
                verifier.verify_message(response, signature)
                return moment
        except VerificationError:
            continue
    return None


def _build_verifier(certificates: list[Any]) -> Any:
    from rfc3161_client import VerifierBuilder  # noqa: PLC0415 - as above

    if len(certificates) < _SHORTEST_CHAIN:
        return None
    builder = VerifierBuilder().tsa_certificate(certificates[0]).add_root_certificate(certificates[-1])
    for each in certificates[1:-1]:
        builder = builder.add_intermediate_certificate(each)
    return builder.build()
