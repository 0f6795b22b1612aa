from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from accelkit.install.certificates.issuing import LEAF_LIFETIME, Authority, KeyPair, StoredAuthority


@pytest.fixture(scope="module")
def authority():
    return Authority("accelkit", timedelta(days=3650))


def load(pair):
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert serialization.load_pem_private_key(pair.key, None).public_key() == certificate.public_key()
    return certificate


def names(certificate):
    return {each.oid: each.value for each in certificate.subject}


def extensions(certificate):
    return {type(each.value): (each.critical, each.value) for each in certificate.extensions}


def usages(certificate):
    critical, usage = extensions(certificate)[x509.KeyUsage]
    assert critical
    return {each for each in ("digital_signature", "key_cert_sign", "crl_sign") if getattr(usage, each)}


def is_valid_for(certificate, lifetime):
    begins = datetime.now(UTC) - certificate.not_valid_before_utc
    assert timedelta(minutes=5) <= begins < timedelta(minutes=10)
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc == lifetime + timedelta(minutes=5)


def test_authority_certificate_is_self_signed_and_can_sign(authority):
    certificate = load(authority.pair)
    certificate.verify_directly_issued_by(certificate)
    assert names(certificate) == {NameOID.COMMON_NAME: "accelkit"}
    found = extensions(certificate)
    assert found[x509.BasicConstraints] == (True, x509.BasicConstraints(ca=True, path_length=0))
    assert found[x509.SubjectKeyIdentifier][0] is False
    assert usages(certificate) == {"digital_signature", "key_cert_sign", "crl_sign"}
    assert abs(certificate.not_valid_after_utc - datetime.now(UTC) - timedelta(days=3650)) < timedelta(minutes=1)


def test_server_certificate_contains_hosts_and_addresses(authority):
    certificate = load(authority.issue_server("extender", ["accelkit-extender.accelkit.svc", "10.0.0.1", "fd00::1"]))
    certificate.verify_directly_issued_by(load(authority.pair))
    assert names(certificate) == {NameOID.COMMON_NAME: "extender"}
    found = extensions(certificate)
    assert found[x509.BasicConstraints] == (True, x509.BasicConstraints(ca=False, path_length=None))
    assert found[x509.ExtendedKeyUsage] == (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))
    assert found[x509.AuthorityKeyIdentifier][0] is False
    critical, alternatives = found[x509.SubjectAlternativeName]
    assert not critical
    assert alternatives.get_values_for_type(x509.DNSName) == ["accelkit-extender.accelkit.svc"]
    assert [str(each) for each in alternatives.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    assert usages(certificate) == {"digital_signature"}
    assert is_valid_for(certificate, LEAF_LIFETIME)


def test_client_certificate_contains_user_and_group(authority):
    certificate = load(authority.issue_client("system:kube-scheduler", "system:masters"))
    assert names(certificate) == {
        NameOID.COMMON_NAME: "system:kube-scheduler",
        NameOID.ORGANIZATION_NAME: "system:masters",
    }
    found = extensions(certificate)
    assert found[x509.ExtendedKeyUsage][1] == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    assert x509.SubjectAlternativeName not in found
    assert names(load(authority.issue_client("alone"))) == {NameOID.COMMON_NAME: "alone"}


def test_each_certificate_has_its_own_key_and_serial_number(authority):
    first, second = (load(authority.issue_client("a")) for _ in range(2))
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()


def test_stored_authority_can_issue_certificates(authority):
    stored = StoredAuthority(authority.pair)
    assert stored.pair == authority.pair
    load(stored.issue_client("a")).verify_directly_issued_by(load(authority.pair))


def test_key_of_another_certificate_is_refused(authority):
    with pytest.raises(ValueError, match="the key does not belong to the certificate"):
        StoredAuthority(KeyPair(authority.certificate, Authority("other").pair.key))
    curve = ec.generate_private_key(ec.SECP384R1())
    key = curve.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ValueError, match="the key does not belong to the certificate"):
        StoredAuthority(KeyPair(authority.certificate, key))
