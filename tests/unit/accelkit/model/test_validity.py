from datetime import timedelta

import pytest
from cryptography import x509

from accelkit.install.certificates.issuing import Authority
from accelkit.model.validity import find_end


def test_find_end_returns_earliest_end_of_certificates():
    long, short = (Authority("x", timedelta(days=days)).certificate for days in (20, 10))
    end = x509.load_pem_x509_certificate(short).not_valid_after_utc
    assert find_end(long + short) == find_end(short + long) == end


@pytest.mark.parametrize("text", [b"", b"nonsense"])
def test_find_end_refuses_invalid_chain(text):
    with pytest.raises(ValueError, match=r"."):
        find_end(text)
