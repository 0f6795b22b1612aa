"""A Sigstore of one's own: its authority, its logs, those who sign with it, and the root that trusts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from private_sigstore.certificates import ISSUER_V1, ISSUER_V2, CertificateAuthority, pem
from private_sigstore.keys import Key, LogIdentity, b64
from private_sigstore.timestamps import TimestampAuthority

__all__ = ["GITHUB", "MOMENT", "PrivateSigstore", "Signer", "trusted_root"]

GITHUB = "https://token.actions.githubusercontent.com"
MOMENT = datetime(2025, 6, 1, 12, tzinfo=UTC)  # when everything happens unless a test says otherwise

_LIFETIME = timedelta(minutes=10)  # of Fulcio's certificates
_START = "2000-01-01T00:00:00Z"


@dataclass(frozen=True)
class Signer:
    """A key, the certificate that names its owner where there is one, and the log that signatures go to.

    Args:
        key: what signs.
        certificate: the leaf.
        chain: the certificates above the leaf, intermediate first.
        rekor: the log.
        at: when it signs.
    """

    key: Key
    certificate: x509.Certificate | None = None
    chain: tuple[x509.Certificate, ...] = ()
    rekor: LogIdentity = field(default_factory=LogIdentity)
    at: datetime = MOMENT

    @property
    def verifier_pem(self) -> bytes:
        """What a log entry names as able to verify the signature: certificate or public key."""
        return self.key.public_pem if self.certificate is None else pem(self.certificate).encode()


@dataclass(frozen=True)
class PrivateSigstore:
    """What Fulcio, its certificate log and Rekor are to the public one."""

    authority: CertificateAuthority
    ct_log: LogIdentity
    rekor: LogIdentity
    clock: Callable[[], datetime]

    @classmethod
    def new(cls, *, clock: Callable[[], datetime] = lambda: MOMENT) -> Self:
        """One with fresh keys; `clock` says when its signatures are made."""
        return cls(CertificateAuthority.new("private", around=clock()), LogIdentity(), LogIdentity(), clock)

    @property
    def trusted_root_json(self) -> str:
        """The trusted root that trusts it, as a JSON document of version 0.1."""
        return trusted_root(authorities=[self.authority], ct_logs=[self.ct_log], rekors=[self.rekor])

    def identity(
        self,
        identity: str | x509.GeneralName = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main",
        *,
        issuer: str | None = GITHUB,
        issuer_oids: Sequence[x509.ObjectIdentifier] = (ISSUER_V1, ISSUER_V2),
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        sct: bool = True,
        ct_log: LogIdentity | None = None,
        authority: CertificateAuthority | None = None,
        usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
        key_usage: str | None = "digital_signature",
        kind: Literal["ecdsa", "rsa", "ed25519"] = "ecdsa",
    ) -> Signer:
        """Someone who signed in, with a certificate of ten minutes.

        Args:
            identity: a URI or an e-mail address, or any other subject alternative name.
            issuer: the OpenID Connect issuer; None for a certificate without one.
            issuer_oids: the extensions in which the issuer stands.
            not_before: begin of validity; now without it.
            not_after: end of validity; ten minutes later without it.
            sct: whether the certificate log's promise is embedded.
            ct_log: a certificate log other than our own.
            authority: a certificate authority other than our own.
            usage: the extended key usage; None for a certificate that names none.
            key_usage: the one key usage, as `x509.KeyUsage` calls it; None for a certificate that names none.
            kind: the key's kind.
        """
        key = Key.new(kind)
        not_before = not_before or self.clock()
        authority = authority or self.authority
        certificate = authority.issue(
            key,
            identity if isinstance(identity, x509.GeneralName) else _general_name(identity),
            not_before=not_before,
            not_after=not_after or not_before + _LIFETIME,
            issuer=issuer,
            issuer_oids=issuer_oids,
            usage=usage,
            key_usage=key_usage,
            ct_log=(ct_log or self.ct_log) if sct else None,
        )
        return Signer(key, certificate, authority.chain, self.rekor, not_before + _LIFETIME / 10)

    def key(self, kind: Literal["ecdsa", "rsa", "ed25519"] = "ecdsa") -> Signer:
        """Someone with a plain key, whose signatures may go to our log."""
        return Signer(Key.new(kind), rekor=self.rekor, at=self.clock())


def trusted_root(
    *,
    authorities: Sequence[CertificateAuthority] = (),
    ct_logs: Sequence[LogIdentity] = (),
    rekors: Sequence[LogIdentity] = (),
    timestampers: Sequence[TimestampAuthority] = (),
) -> str:
    """A trusted root as JSON, of version 0.1, in the order of the arguments."""
    document = {
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [_log(each, "https://rekor.private.test") for each in rekors],
        "certificateAuthorities": [_authority(each) for each in authorities],
        "ctlogs": [_log(each, "https://ct.private.test") for each in ct_logs],
        "timestampAuthorities": [_timestamper(each) for each in timestampers],
    }
    return json.dumps(document, indent=2)


def _authority(authority: CertificateAuthority) -> dict[str, Any]:
    certificates = [{"rawBytes": b64(each.public_bytes(Encoding.DER))} for each in authority.chain]
    return {
        "subject": {"organization": "private.test", "commonName": authority.name},
        "uri": "https://fulcio.private.test",
        "certChain": {"certificates": certificates},
        "validFor": {"start": _START},
    }


def _timestamper(authority: TimestampAuthority) -> dict[str, Any]:
    valid_for = {"start": authority.start.isoformat()}
    if authority.end is not None:
        valid_for["end"] = authority.end.isoformat()
    certificates = [{"rawBytes": b64(each.public_bytes(Encoding.DER))} for each in authority.chain]
    return {
        "subject": {"organization": "private.test", "commonName": authority.name},
        "uri": "https://timestamps.private.test",
        "certChain": {"certificates": certificates},
        "validFor": valid_for,
    }


def _log(log: LogIdentity, url: str) -> dict[str, Any]:
    key = {"rawBytes": b64(log.key.spki), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": {"start": _START}}
    return {"baseUrl": url, "hashAlgorithm": "SHA2_256", "publicKey": key, "logId": {"keyId": b64(log.log_id)}}


def _general_name(identity: str) -> x509.GeneralName:
    if "://" in identity:
        return x509.UniformResourceIdentifier(identity)
    return x509.RFC822Name(identity)
