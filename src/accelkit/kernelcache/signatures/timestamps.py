"""Signed timestamps (RFC 3161) by authorities of the trusted root, which prove when a signature existed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accelkit.kernelcache.signatures.evidence import SignatureEvidence
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

_MAX_TIMESTAMPS = 32
# A signing certificate and a root at least.
_SHORTEST_CHAIN = 2


def verify_timestamps(evidence: SignatureEvidence, authorities: tuple[Any, ...]) -> list[datetime]:
    """Return the moments at which trusted authorities saw the signature; empty where none did.

    Args:
        evidence: the signature.
        authorities: those of the trusted root.

    Raises:
        RejectedError: there are timestamps, and none of them is any authority's that is trusted.
    """
    # Here, because few signatures have timestamps.
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
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "no trusted authority made the signature's timestamps")
    return found


def verify_timestamp(response: Any, signature: bytes, authorities: tuple[Any, ...]) -> datetime | None:
    """Return when one of the authorities saw a signature, or None. An authority's last moment belongs to its time."""
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
