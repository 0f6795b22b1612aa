"""Renewal of certificates from accelkit's own authority in Secrets, and warnings about all other certificates."""

from __future__ import annotations

import base64
import binascii
import logging
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from accelkit.errors import CertificateError, ConfigurationError
from accelkit.install.certificates.issuing import KeyPair, StoredAuthority
from accelkit.install.certificates.secrets import has_signed
from accelkit.kube.client import ApiClient
from accelkit.kube.events import Events, ObjectReference
from accelkit.kube.paths import build_object_path, build_secrets_path
from accelkit.model.validity import find_end

log = logging.getLogger(__name__)

_RUN_SITE = "run site.yml to replace it everywhere"
_ELSEWHERE = "accelkit's authority did not issue it, so renew it with its issuer, or run site.yml"


@dataclass(frozen=True, slots=True)
class Ending:
    """A certificate that expires soon and that accelkit cannot renew.

    Attributes:
        name: the name of the Secret.
        ends: the expiry time of the certificate.
        advice: the next step for the administrator.
    """

    name: str
    ends: datetime
    advice: str

    def __str__(self) -> str:
        return f"the certificate of Secret {self.name} is valid until {self.ends:%Y-%m-%d %H:%M} UTC; {self.advice}"


def renew_leaf(authority: KeyPair, leaf: KeyPair, ends_before: datetime) -> KeyPair | None:
    """Return a new certificate with the same names if a serving certificate expires too soon; otherwise None.

    Args:
        authority: the signing authority.
        leaf: a serving certificate and its key.
        ends_before: the time before which an expiry is too soon.

    Raises:
        CertificateError: the certificate expires too soon, and another authority issued it.
        ConfigurationError: one of the certificates cannot be read.
    """
    try:
        signer, certificate = StoredAuthority(authority), x509.load_pem_x509_certificate(leaf.certificate)
        issuer = x509.load_pem_x509_certificate(authority.certificate)
    except (ValueError, TypeError) as exc:
        raise ConfigurationError(f"cannot read a certificate: {exc}", next_step="run site.yml") from exc
    if certificate.not_valid_after_utc > ends_before:
        return None
    if not has_signed(issuer, certificate, datetime.now(UTC)):
        # This error also occurs for certificates from accelkit's previous authority, because kube-scheduler does not
        # trust the current authority until its next restart.
        raise CertificateError("it was issued by another authority, or that authority has expired")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (subject,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return signer.issue_server(str(subject.value), [str(each.value) for each in names])


async def renew_secret(
    api: ApiClient, namespace: str, name: str, authority: KeyPair, ends_before: datetime
) -> Ending | None:
    """Renew the serving certificate in a Secret if it expires too soon. Do not change the other data of the Secret.

    Returns:
        The certificate if it expires soon and another authority must renew it; otherwise None.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ConfigurationError: the stored data cannot be read.
    """
    path = build_object_path(build_secrets_path(namespace), name)
    secret: dict[str, Any] = msgspec.json.decode(await api.get(path))
    leaf = _read_leaf(secret, f"{namespace}/{name}")
    try:
        renewed = renew_leaf(authority, leaf, ends_before)
    except CertificateError:
        return Ending(name, find_end(leaf.certificate), _ELSEWHERE)
    if renewed is not None:
        data = {"tls.crt": renewed.certificate, "tls.key": renewed.key}
        # The update contains the resource version of the Secret, so that it does not overwrite other changes.
        secret["data"] |= {key: base64.b64encode(value).decode() for key, value in data.items()}
        await api.put(path, secret)
        log.info("renewed certificate secret=%s/%s", namespace, name)
    return None


def find_endings(folder: Path, ends_before: datetime) -> list[Ending]:
    """Return the certificates in a folder that expire too soon. The file `NAME.crt` belongs to the Secret NAME.

    Raises:
        ConfigurationError: a certificate cannot be read.
    """
    found = []
    for path in sorted(folder.glob("*.crt")):
        try:
            ends = find_end(path.read_bytes())
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"cannot read the certificate {path}: {exc}") from exc
        if ends <= ends_before:
            found.append(Ending(path.stem, ends, _RUN_SITE))
    return found


async def run_renewal(
    api: ApiClient, *, namespace: str, secrets: Iterable[str], authority: Path, watched: Path, renew_before: timedelta
) -> None:
    """Renew certificates from accelkit's authority, and create an Event for each other certificate that expires soon.

    Args:
        api: an open client.
        namespace: the namespace of the Secrets.
        secrets: the names of the Secrets whose serving certificates are renewed.
        authority: the folder that contains `tls.crt` and `tls.key` of the authority.
        watched: the folder that contains other certificates. The file `NAME.crt` belongs to the Secret NAME.
        renew_before: the time before expiry at which a certificate is renewed, or a warning is created.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ConfigurationError: the stored data cannot be read.
    """
    ends_before = datetime.now(UTC) + renew_before
    try:
        signer = KeyPair((authority / "tls.crt").read_bytes(), (authority / "tls.key").read_bytes())
    except OSError as exc:
        raise ConfigurationError(f"cannot read the certificate authority in {authority}: {exc}") from exc
    foreign = [await renew_secret(api, namespace, name, signer, ends_before) for name in secrets]
    events = Events(api, "accelkit-certificates", socket.gethostname())
    for each in [*filter(None, foreign), *find_endings(watched, ends_before)]:
        log.warning("%s", each)
        involved = ObjectReference("Secret", each.name, namespace)
        await events.record(involved, "CertificateEnds", str(each), warning=True)


def _read_leaf(secret: Mapping[str, Any], name: str) -> KeyPair:
    try:
        data = {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
        return KeyPair(data["tls.crt"], data["tls.key"])
    except (KeyError, binascii.Error) as exc:
        raise ConfigurationError(
            f"cannot read a certificate and its key from Secret {name}: {exc}", next_step="run site.yml"
        ) from exc
