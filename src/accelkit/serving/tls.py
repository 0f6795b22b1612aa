"""TLS settings for a port: the server's certificate and the accepted clients."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.errors import ConfigurationError

# The name in the only client certificate that accelkit's own certificate authority issues.
CLIENT_NAME: Final = "accelkit-kube-scheduler"
# Protocols for the TLS handshake, in order of preference. The first protocol that the client also supports is used.
H1: Final = "http/1.1"
H2: Final = "h2"


@dataclass(frozen=True)
class TlsFiles:
    """TLS files in PEM format: the server's chain and key, and a CA if clients must have a certificate.

    Attributes:
        client_names: the accepted client names. The certificate of a client must have one of these names as its common
            name or as a DNS name.
    """

    certificate: Path
    key: Path
    client_ca: Path | None
    client_names: frozenset[str] = frozenset()

    def digest(self) -> bytes | None:
        """Return a digest of the files; None if a file cannot be read."""
        digest = hashlib.sha256()
        try:
            for path in filter(None, (self.certificate, self.key, self.client_ca)):
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            return None
        return digest.digest()


@dataclass(frozen=True)
class Listen:
    """The address of a port, and its certificates. Without certificates, the port serves plain HTTP."""

    host: str
    port: int
    tls: TlsFiles | None = None


def make_context(files: TlsFiles, *, http2: bool = False) -> ssl.SSLContext:
    """Return the TLS context for these files. If `http2` is set, it offers HTTP/2.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols([H2, H1] if http2 else [H1])
    try:
        # An empty password prevents OpenSSL from prompting for one.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot use the certificate {files.certificate} with the key {files.key}: {exc}"
        ) from exc
    if files.client_ca is None:
        return context
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"cannot use the authority {files.client_ca}: {exc}") from exc
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def list_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the common names and DNS names in a verified certificate, as returned by `ssl.SSLSocket.getpeercert`."""
    found = certificate or {}
    common = {value for part in found.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"})
