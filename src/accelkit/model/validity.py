"""Validity of certificates."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509


def find_end(chain: bytes) -> datetime:
    """Return when the first certificate of a PEM chain expires, in UTC.

    Raises:
        ValueError: the bytes are not a chain of certificates.
    """
    return min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(chain))
