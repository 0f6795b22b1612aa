from datetime import timedelta

import pytest
from cryptography import x509

from accelkit.install.certificates.issuing import Authority
from accelkit.model.validity import find_end


def test_a_chain_ends_with_the_first_of_its_certificates():
    long, short = (Authority("x", timedelta(days=days)).certificate for days in (20, 10))
    end = x509.load_pem_x509_certificate(short).not_valid_after_utc
    assert find_end(long + short) == find_end(short + long) == end


@pytest.mark.parametrize("text", [b"", b"nonsense"])
def test_what_is_no_chain_is_an_error(text):
    with pytest.raises(ValueError, match=r"."):
        find_end(text)
