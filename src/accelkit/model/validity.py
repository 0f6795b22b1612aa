"""Reader of certificate expiry times."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509


def find_end(chain: bytes) -> datetime:
    """Return the expiry time of the first certificate in a PEM chain, in UTC.

    Raises:
        ValueError: the bytes are not a certificate chain.
    """
    return min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(chain))
