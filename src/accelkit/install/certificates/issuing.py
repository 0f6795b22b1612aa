"""A certificate authority and the certificates that it issues. Keys use the curve P-256. The data format is PEM."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LEAF_LIFETIME = timedelta(days=365)
# Clocks of hosts may differ by a few seconds. New certificates must be valid in spite of this difference.
_BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, in PEM format."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority.

    Args:
        name: the common name of the authority.
        lifetime: the validity period of its certificate.
    """

    def __init__(self, name: str, lifetime: timedelta = LEAF_LIFETIME) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key(), lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(authority=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = builder.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())

    @property
    def pair(self) -> KeyPair:
        """The certificate and key of the authority, for storage."""
        return KeyPair(self.certificate, encode_private_key(self._key))

    @property
    def certificate(self) -> bytes:
        """The certificate of the authority, in PEM format."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, name: str, alternatives: Sequence[str]) -> KeyPair:
        """Issue a serving certificate for host names and addresses."""
        return self._issue(name, "", ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def issue_client(self, name: str, group: str = "") -> KeyPair:
        """Issue a client certificate. The common name is the user, and the organization is the group."""
        return self._issue(name, group, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def _issue(self, name: str, group: str, usage: x509.ObjectIdentifier, alternatives: Sequence[str]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key.public_key(), LEAF_LIFETIME)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if alternatives:
            names = x509.SubjectAlternativeName([_general_name(entry) for entry in alternatives])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), encode_private_key(key))


class StoredAuthority(Authority):
    """A certificate authority that is created from stored data.

    Args:
        pair: the certificate and key of the authority.

    Raises:
        ValueError: the data is not a certificate and its P-256 key.
    """

    def __init__(self, pair: KeyPair) -> None:
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != self._certificate.public_key():
            raise ValueError("the key does not belong to the certificate")
        self._key, self._name = key, self._certificate.subject


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(entry: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(entry))
    except ValueError:
        return x509.DNSName(entry)


def encode_private_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PKCS #8 format, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
