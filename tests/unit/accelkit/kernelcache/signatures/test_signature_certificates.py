"""What a certificate says about its owner, read so that nobody can say it twice."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from private_sigstore import CertificateAuthority, Key
from private_sigstore.certificates import ISSUER_V1, ISSUER_V2
from signing_stand import SIGNER, at

from accelkit.kernelcache.signatures.certificates import check_identity, check_path, read_issuer, read_subjects
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.text_patterns import TextMatch
from accelkit.kernelcache.signatures.trust import Authorities

NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
ANYBODY = TextMatch(pattern=".*")


def certificate(
    *extensions: tuple[x509.ObjectIdentifier, bytes], names=(), authority: bool = False
) -> x509.Certificate:
    """One that signed itself."""
    key = Key.new().private
    builder = x509.CertificateBuilder(NAME, NAME, key.public_key(), 1, at(0), at(600))
    if authority:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    for oid, value in extensions:
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
    return builder.sign(key, hashes.SHA256())


def utf8(text: str) -> bytes:
    return bytes([0x0C, len(text)]) + text.encode()


def test_certificate_with_conflicting_issuers_has_no_issuer():
    agreed = certificate((ISSUER_V1, b"https://idp.test"), (ISSUER_V2, utf8("https://idp.test")))
    split = certificate((ISSUER_V1, b"https://idp.test"), (ISSUER_V2, utf8("https://evil.test")))
    assert read_issuer(agreed) == "https://idp.test"
    assert read_issuer(split) is None
    for issuer in ("https://idp.test", "https://evil.test"):
        with pytest.raises(RejectedError) as caught:
            check_identity(split, TextMatch(issuer), None)
        assert caught.value.reason == RejectionReason.IDENTITY_MISMATCH


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x0c",
        b"\x0c\x05abc",
        b"\x0c\x02abc",
        b"\x16\x03abc",
        b"\x0c\x83\x00\x00\x03a",
        b"\x0c\xff",
        b"\x0c\x02\xff\xff",
    ],
)
def test_malformed_issuer_extension_is_read_as_none(value):
    assert read_issuer(certificate((ISSUER_V2, value))) is None
    assert read_issuer(certificate((ISSUER_V1, b"https://idp.test"), (ISSUER_V2, value))) is None


def test_certificate_without_subject_matches_no_pattern():
    for empty in (certificate(), certificate(names=[x509.DNSName("ci.acme.test")])):
        assert read_subjects(empty) == []
        with pytest.raises(RejectedError) as caught:
            check_identity(empty, None, ANYBODY)
        assert caught.value.reason == RejectionReason.IDENTITY_MISMATCH


def test_any_subject_name_of_certificate_may_match():
    names = [x509.UniformResourceIdentifier("https://a.test/x"), x509.RFC822Name("ci@acme.test")]
    assert check_identity(certificate(names=names), None, TextMatch("ci@acme.test")) == ("ci@acme.test", None)


def test_trusted_authority_certificate_cannot_sign_images():
    own = certificate(authority=True)
    with pytest.raises(RejectedError) as caught:
        check_path(own, (), Authorities((own,)), at(60))
    assert caught.value.reason == RejectionReason.UNTRUSTED_ROOT


def test_circular_authority_chain_is_rejected():
    circle = CertificateAuthority.new("circle", around=SIGNER.at)
    trusted = CertificateAuthority.new("trusted", around=SIGNER.at)
    leaf = circle.issue(Key.new(), x509.RFC822Name("ci@acme.test"), not_before=at(0), not_after=at(600))
    again = [circle.intermediate, circle.root] * 50
    with pytest.raises(RejectedError) as caught:
        check_path(leaf, tuple(again), Authorities((trusted.root,)), at(60))
    assert caught.value.reason == RejectionReason.UNTRUSTED_ROOT
