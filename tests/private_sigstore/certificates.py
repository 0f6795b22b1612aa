"""A certificate authority as Fulcio's: root, intermediate, and leaves that name who signed in."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from private_sigstore.der import OCTET_STRING, UTF8_STRING, der
from private_sigstore.keys import Key, LogIdentity

__all__ = ["ISSUER_V1", "ISSUER_V2", "CertificateAuthority"]

ISSUER_V1 = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
ISSUER_V2 = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")

_SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_YEARS = timedelta(days=3650)
_KEY_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True)
class CertificateAuthority:
    """A root and the intermediate that signs leaves."""

    name: str
    root: x509.Certificate
    intermediate: x509.Certificate
    key: Key

    @classmethod
    def new(
        cls,
        name: str,
        *,
        around: datetime,
        limited_to: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
        key_usages: Sequence[str] = ("key_cert_sign", "crl_sign"),
    ) -> Self:
        """One that is valid ten years before and after a moment.

        Args:
            name: of root and intermediate.
            around: the moment.
            limited_to: the extended usage that the intermediate names; None for none.
            key_usages: of the intermediate; none leaves the extension out of both.
        """
        root_key, key = Key.new(), Key.new()
        validity = (around - _YEARS, around + _YEARS)
        root_name, own_name = _name(f"{name} root"), _name(f"{name} intermediate")
        signs = ("key_cert_sign", "crl_sign") if key_usages else ()
        make = partial(_ca, issuer=root_name, issuer_key=root_key, validity=validity)
        root = make(root_name, root_key, path_length=1, key_usages=signs)
        own = make(own_name, key, path_length=0, key_usages=key_usages, limited_to=limited_to)
        return cls(name, root, own, key)

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """Intermediate, then root."""
        return (self.intermediate, self.root)

    def issue(
        self,
        key: Key,
        san: x509.GeneralName,
        *,
        not_before: datetime,
        not_after: datetime,
        issuer: str | None = None,
        issuer_oids: Sequence[x509.ObjectIdentifier] = (ISSUER_V1, ISSUER_V2),
        usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
        key_usage: str | None = "digital_signature",
        ct_log: LogIdentity | None = None,
    ) -> x509.Certificate:
        """A leaf for a key.

        Args:
            key: whose public half is certified.
            san: who it belongs to.
            not_before: begin of validity.
            not_after: end of validity.
            issuer: the OpenID Connect issuer that vouched for it; none for an ordinary authority.
            issuer_oids: the extensions in which the issuer stands.
            usage: the extended key usage; that of timestamps is critical, as RFC 3161 wants it. None leaves it out.
            key_usage: the one key usage, as `x509.KeyUsage` calls it; None leaves the extension out.
            ct_log: the log whose promise to include the certificate is embedded; without it there is none.
        """
        builder = _builder(x509.Name([]), key, self.intermediate.subject, (not_before, not_after))
        if key_usage is not None:
            builder = builder.add_extension(_key_usage(key_usage), critical=True)
        stamps = usage == ExtendedKeyUsageOID.TIME_STAMPING
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=stamps)
        builder = builder.add_extension(_authority_of(self.key), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([san]), critical=True)
        for oid in issuer_oids if issuer is not None else ():
            text = (issuer or "").encode()
            # The first of the two extensions predates the rule that values are DER.
            value = text if oid == ISSUER_V1 else der(UTF8_STRING, text)
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
        if ct_log is not None:
            promised = builder.sign(self.key.private, hashes.SHA256()).tbs_certificate_bytes
            promises = _sct_list(ct_log, issuer_key=self.key, certificate=promised, at=not_before)
            embedded = x509.UnrecognizedExtension(_SCT_LIST, der(OCTET_STRING, promises))
            builder = builder.add_extension(embedded, critical=False)
        return builder.sign(self.key.private, hashes.SHA256())


def pem(*certificates: x509.Certificate) -> str:
    """The certificates as PEM, one after the other."""
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _ca(
    name: x509.Name,
    key: Key,
    *,
    issuer: x509.Name,
    issuer_key: Key,
    validity: tuple[datetime, datetime],
    path_length: int,
    key_usages: Sequence[str],
    limited_to: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    builder = _builder(name, key, issuer, validity)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
    if key_usages:
        builder = builder.add_extension(_key_usage(*key_usages), critical=True)
    if limited_to is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([limited_to]), critical=False)
    if key != issuer_key:
        builder = builder.add_extension(_authority_of(issuer_key), critical=False)
    return builder.sign(issuer_key.private, hashes.SHA256())


def _builder(
    subject: x509.Name, key: Key, issuer: x509.Name, validity: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    public = key.private.public_key()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(validity[0])
    builder = builder.not_valid_after(validity[1])
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _name(common_name: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "private.test")
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _authority_of(key: Key) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.private.public_key())


def _key_usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{each: each in allowed for each in _KEY_USAGES})


def _sct_list(log: LogIdentity, *, issuer_key: Key, certificate: bytes, at: datetime) -> bytes:
    """A list of one signed certificate timestamp for a precertificate, as RFC 6962 (3.2 and 3.3) lays it out."""
    milliseconds = int(at.timestamp() * 1000)
    version, certificate_timestamp, precertificate, no_extensions = 0, 0, 1, b"\0\0"
    issuer = hashlib.sha256(issuer_key.spki).digest()
    head = struct.pack(">BBQH", version, certificate_timestamp, milliseconds, precertificate)
    signed = head + issuer + len(certificate).to_bytes(3, "big") + certificate + no_extensions
    signature = log.key.sign(signed)
    sha256, ecdsa = 4, 3
    sct = struct.pack(">B32sQ", version, log.log_id, milliseconds) + no_extensions
    sct += struct.pack(">BBH", sha256, ecdsa, len(signature)) + signature
    return struct.pack(">HH", len(sct) + 2, len(sct)) + sct
