"""A timestamp authority (RFC 3161): signed statements that something was there at a moment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from private_sigstore.certificates import CertificateAuthority
from private_sigstore.der import OCTET_STRING, SEQUENCE, SET, context, der, integer, object_identifier
from private_sigstore.keys import Key

__all__ = ["TimestampAuthority"]

_YEARS = timedelta(days=3650)
_GENERALIZED_TIME = 0x18
_GRANTED = 0
_POLICY = "1.3.6.1.4.1.57264.2"
_SHA256 = der(SEQUENCE, object_identifier("2.16.840.1.101.3.4.2.1"))
_ECDSA_WITH_SHA256 = der(SEQUENCE, object_identifier("1.2.840.10045.4.3.2"))
_SIGNED_DATA = object_identifier("1.2.840.113549.1.7.2")
_TST_INFO = object_identifier("1.2.840.113549.1.9.16.1.4")
_CONTENT_TYPE = object_identifier("1.2.840.113549.1.9.3")
_MESSAGE_DIGEST = object_identifier("1.2.840.113549.1.9.4")
_SIGNING_CERTIFICATE = object_identifier("1.2.840.113549.1.9.16.2.47")


@dataclass(frozen=True)
class TimestampAuthority:
    """A certificate for timestamps, its key, and the certificates above it.

    Attributes:
        start: from when a trusted root trusts it.
        end: until when; None for ever.
    """

    name: str
    certificate: x509.Certificate
    above: tuple[x509.Certificate, ...]
    key: Key
    start: datetime
    end: datetime | None = None

    @classmethod
    def new(cls, name: str, *, around: datetime) -> Self:
        """One that is valid, and trusted, ten years before and after a moment."""
        authority, key = CertificateAuthority.new(name, around=around), Key.new()
        start, end = around - _YEARS, around + _YEARS
        certificate = authority.issue(
            key,
            x509.DNSName(f"{name}.private.test"),
            not_before=start,
            not_after=end,
            usage=ExtendedKeyUsageOID.TIME_STAMPING,
        )
        return cls(name, certificate, authority.chain, key, start, end)

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """Its own certificate, then those above it, the root last."""
        return (self.certificate, *self.above)

    def stamp(self, message: bytes, *, at: datetime, changed: bool = False) -> bytes:
        """The answer (TimeStampResp) that says that a message was there at a moment; only full seconds count.

        Args:
            message: what was there; of a signature's timestamp, the signature.
            at: the moment.
            changed: whether the statement was changed after the authority had signed it.
        """
        signed = _statement(message, at)
        statement = _statement(message, at + timedelta(seconds=1)) if changed else signed
        content = der(SEQUENCE, _TST_INFO, context(0, der(OCTET_STRING, statement)))
        signed_data = der(
            SEQUENCE,
            integer(3),
            der(SET, _SHA256),
            content,
            context(0, self.certificate.public_bytes(Encoding.DER)),
            der(SET, self._signer_info(signed)),
        )
        token = der(SEQUENCE, _SIGNED_DATA, context(0, signed_data))
        return der(SEQUENCE, der(SEQUENCE, integer(_GRANTED)), token)

    def _signer_info(self, statement: bytes) -> bytes:
        own = self.certificate.fingerprint(hashes.SHA256())
        attributes = sorted(
            (
                _attribute(_CONTENT_TYPE, _TST_INFO),
                _attribute(_MESSAGE_DIGEST, der(OCTET_STRING, hashlib.sha256(statement).digest())),
                _attribute(_SIGNING_CERTIFICATE, der(SEQUENCE, der(SEQUENCE, der(SEQUENCE, der(OCTET_STRING, own))))),
            )
        )
        return der(
            SEQUENCE,
            integer(1),
            der(SEQUENCE, self.certificate.issuer.public_bytes(), integer(self.certificate.serial_number)),
            _SHA256,
            context(0, *attributes),
            _ECDSA_WITH_SHA256,
            # What is signed is the set, and not the tag that it goes by in the message.
            der(OCTET_STRING, self.key.sign(der(SET, *attributes))),
        )


def _statement(message: bytes, at: datetime) -> bytes:
    imprint = der(SEQUENCE, _SHA256, der(OCTET_STRING, hashlib.sha256(message).digest()))
    moment = der(_GENERALIZED_TIME, f"{at:%Y%m%d%H%M%SZ}".encode())
    return der(SEQUENCE, integer(1), object_identifier(_POLICY), imprint, integer(1), moment)


def _attribute(kind: bytes, value: bytes) -> bytes:
    return der(SEQUENCE, kind, der(SET, value))
