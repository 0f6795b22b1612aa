"""Secrets for the certificates that kube-scheduler and the extender use for mutual TLS.

Three Secrets contain the authority, the extender's certificate and the scheduler's certificate. While an authority is
being replaced, the first Secret also contains the previous authority. If kernel caches are served, a fourth Secret
contains the certificate of their webhook. Valid certificates are not changed. Certificates that are missing, expire
soon or have different names are reissued.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from accelkit.errors import CertificateError, ConfigurationError
from accelkit.install.certificates.issuing import Authority, KeyPair, StoredAuthority
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import create_or_replace, get_if_present
from accelkit.kube.paths import build_object_path, build_secrets_path
from accelkit.model.validity import find_end
from accelkit.serving.tls import CLIENT_NAME

AUTHORITY, SERVER, CLIENT = "accelkit-ca", "accelkit-extender-tls", "accelkit-scheduler-client"
WEBHOOK = "accelkit-cache-webhook-tls"

_AUTHORITY_LIFETIME = timedelta(days=3650)
_CERT, _KEY, _CA = "tls.crt", "tls.key", "ca.crt"
_USAGES = {
    SERVER: ExtendedKeyUsageOID.SERVER_AUTH,
    WEBHOOK: ExtendedKeyUsageOID.SERVER_AUTH,
    CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH,
}
_SUBJECTS = {SERVER: "accelkit-extender", WEBHOOK: "accelkit-cache-webhook", CLIENT: CLIENT_NAME}

Data = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class CertificateSpec:
    """The parameters of the certificates.

    Args:
        names: the host names and addresses of the extender.
        renew_before: the time before expiry at which certificates are renewed.
        rotate_ca: whether to create a new authority. The previous authority is trusted until the next rotation or its
            expiry.
        webhook_names: the host names of the kernel cache webhook; empty if there is no webhook.
    """

    names: tuple[str, ...]
    renew_before: timedelta = timedelta(days=30)
    rotate_ca: bool = False
    webhook_names: tuple[str, ...] = ()


def renew_secrets(
    stored: Mapping[str, Data], spec: CertificateSpec, now: datetime | None = None
) -> dict[str, dict[str, bytes]]:
    """Return the required data of the Secrets, by name. Data that does not need to change equals the stored data.

    Raises:
        ConfigurationError: the stored authority cannot be read. It is not replaced, so that no data is lost.
    """
    now = now or datetime.now(UTC)
    authority, bundle = _choose_authority(stored.get(AUTHORITY), spec, now)
    pair = authority.pair
    # kube-scheduler reads a new authority only when it starts. Therefore, certificates from the previous authority are
    # kept until the next run.
    known = stored.get(AUTHORITY, {}).get(_CERT) == pair.certificate
    signers = pair.certificate if known else bundle
    data = {AUTHORITY: {_CERT: pair.certificate, _KEY: pair.key, _CA: bundle}}
    all_names = {SERVER: spec.names, CLIENT: ()} | ({WEBHOOK: spec.webhook_names} if spec.webhook_names else {})
    for name, names in all_names.items():
        current = stored.get(name, {})
        leaf = KeyPair(current.get(_CERT, b""), current.get(_KEY, b""))
        if not _is_usable(leaf, signers, name, names, now + spec.renew_before):
            subject = _SUBJECTS[name]
            leaf = authority.issue_server(subject, names) if names else authority.issue_client(subject)
        data[name] = {_CERT: leaf.certificate, _KEY: leaf.key, _CA: bundle}
    return data


def _is_usable(leaf: KeyPair, bundle: bytes, name: str, names: Sequence[str], at: datetime) -> bool:
    try:
        check_leaf(leaf, bundle, name, names, at)
    except CertificateError:
        return False
    return True


def check_leaf(leaf: KeyPair, bundle: bytes, name: str, names: Sequence[str], at: datetime) -> None:
    """Check that a certificate can be used at a given time.

    Args:
        leaf: a certificate and its key.
        bundle: the trusted authorities.
        name: SERVER, WEBHOOK or CLIENT.
        names: the host names and addresses that the certificate must contain.
        at: the time at which the certificate must be usable.

    Raises:
        CertificateError: the certificate cannot be used. The error contains the reason.
    """
    try:
        certificate = x509.load_pem_x509_certificate(leaf.certificate)
        key = serialization.load_pem_private_key(leaf.key, None)
        authorities = x509.load_pem_x509_certificates(bundle)
    except (ValueError, TypeError) as exc:
        raise CertificateError(f"it cannot be read: {exc}") from exc
    if certificate.public_key() != key.public_key():
        raise CertificateError("its key belongs to another certificate")
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        raise CertificateError(
            f"it is outside its validity period, which ends at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"
        )
    if not any(has_signed(each, certificate, at) for each in authorities):
        raise CertificateError("no trusted authority has signed it")
    _check_purpose(certificate, name, names)


def _check_purpose(certificate: x509.Certificate, name: str, names: Sequence[str]) -> None:
    extensions = certificate.extensions
    try:
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        if _USAGES[name] not in usages:
            raise CertificateError(
                "it is not a client certificate" if name == CLIENT else "it is not a server certificate"
            )
        if names:
            has = {str(each.value) for each in extensions.get_extension_for_class(x509.SubjectAlternativeName).value}
            if missing := [each for each in names if each not in has]:
                raise CertificateError(f"it is not valid for {', '.join(missing)}")
    except x509.ExtensionNotFound as exc:
        raise CertificateError(f"it lacks an extension: {exc}") from exc


def check_given(
    ca: bytes, server: KeyPair | None, client: KeyPair, spec: CertificateSpec
) -> dict[str, dict[str, bytes]]:
    """Check certificates from another issuer; return the data to store in the Secrets.

    Raises:
        ConfigurationError: one of the certificates cannot be used.
    """
    data = {}
    for name, pair in ((SERVER, server), (CLIENT, client)):
        if pair is None:
            continue
        try:
            check_leaf(pair, ca, name, spec.names if name == SERVER else (), datetime.now(UTC))
        except CertificateError as exc:
            raise ConfigurationError(f"cannot use the given certificate for {name}: {exc}") from exc
        data[name] = {_CERT: pair.certificate, _KEY: pair.key, _CA: ca}
    if not list_client_names(client.certificate):
        raise ConfigurationError(
            f"cannot use the given certificate for {CLIENT}: it has neither a common name nor a DNS name",
            next_step="issue a certificate with such a name, because the extender identifies its clients by it",
        )
    return data


def list_client_names(certificate: bytes) -> list[str]:
    """Return the common names and DNS names in a PEM certificate. The extender uses them to identify a client.

    Raises:
        ConfigurationError: the certificate cannot be read.
    """
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError as exc:
        raise ConfigurationError(f"cannot read the client's certificate: {exc}") from exc
    names = {str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
    with suppress(x509.ExtensionNotFound):
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names.update(alternatives.get_values_for_type(x509.DNSName))
    return sorted(names)


def format_not_after(certificate: bytes) -> str:
    """Return the expiry time of a certificate in RFC 3339 format."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")


def list_endings(data: Mapping[str, Data], spec: CertificateSpec) -> list[str]:
    """Return a sentence for each Secret whose certificate must be renewed or has expired."""
    ends = {name: find_end(content[_CERT]) for name, content in sorted(data.items()) if content.get(_CERT)}
    return [
        f"{name} is valid until {end:%Y-%m-%dT%H:%M:%SZ}"
        for name, end in ends.items()
        if end <= datetime.now(UTC) + spec.renew_before
    ]


async def read_secrets(api: ApiClient, namespace: str) -> dict[str, dict[str, bytes]]:
    """Return the data of the Secrets that exist.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ConfigurationError: the data of a Secret is not base64.
    """
    found: dict[str, dict[str, bytes]] = {}
    for name in (AUTHORITY, SERVER, CLIENT, WEBHOOK):
        answer = await get_if_present(api, build_object_path(build_secrets_path(namespace), name))
        if answer is None:
            continue
        data = msgspec.json.decode(answer).get("data") or {}
        try:
            found[name] = {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        except binascii.Error as exc:
            raise ConfigurationError(f"cannot read Secret {namespace}/{name}: {exc}") from exc
    return found


async def write_secrets(api: ApiClient, namespace: str, data: Mapping[str, Data], labels: Mapping[str, str]) -> None:
    """Create or replace Secrets.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    for name, content in data.items():
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
            "data": {key: base64.b64encode(value).decode() for key, value in content.items()},
        }
        await create_or_replace(api, build_secrets_path(namespace), name, secret)


def _choose_authority(stored: Data | None, spec: CertificateSpec, now: datetime) -> tuple[Authority, bytes]:
    """Return the signing authority, and the bundle of trusted authorities, newest first."""
    if not stored:
        created = _create_authority(now)
        return created, created.certificate
    try:
        authority = StoredAuthority(KeyPair(stored[_CERT], stored[_KEY]))
        trusted = x509.load_pem_x509_certificates(stored.get(_CA) or stored[_CERT])
    except (ValueError, TypeError, KeyError) as exc:
        raise ConfigurationError(
            f"cannot read the certificate authority in Secret {AUTHORITY}: {exc}",
            next_step="restore that Secret, or delete it to start with a new authority",
        ) from exc
    ends = x509.load_pem_x509_certificate(authority.certificate).not_valid_after_utc
    if not spec.rotate_ca and now + spec.renew_before < ends:
        valid = [each for each in trusted if each.not_valid_after_utc > now]
        if len(valid) == len(trusted) and stored.get(_CA):
            return authority, stored[_CA]
        return authority, b"".join(_encode(each) for each in valid)
    created = _create_authority(now)
    # Only the last previous authority is retained, because clients had a full rotation period to read the next
    # authority.
    return created, created.certificate + authority.certificate


def _create_authority(now: datetime) -> Authority:
    return Authority(f"accelkit {now:%Y-%m-%d %H:%M:%S}", _AUTHORITY_LIFETIME)


def _encode(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def has_signed(authority: x509.Certificate, certificate: x509.Certificate, at: datetime) -> bool:
    """Return whether an authority has signed a certificate, and is valid at the given time."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return authority.not_valid_before_utc <= at <= authority.not_valid_after_utc
