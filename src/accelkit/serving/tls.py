"""The certificates of a port: this server's, and whose clients it serves."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.errors import ConfigurationError

# Of the one certificate that our own authority issues to clients.
CLIENT_NAME: Final = "accelkit-kube-scheduler"
# What clients and servers agree on in their handshake; the first that both know.
H1: Final = "http/1.1"
H2: Final = "h2"


@dataclass(frozen=True)
class TlsFiles:
    """The files of TLS, in PEM: this server's chain and key, and the authority of its clients, if they need one.

    Attributes:
        client_names: of these names a client's certificate must have one, as its common name or a DNS name.
    """

    certificate: Path
    key: Path
    client_ca: Path | None
    client_names: frozenset[str] = frozenset()

    def digest(self) -> bytes | None:
        """Return a digest of the files, None where one cannot be read."""
        digest = hashlib.sha256()
        try:
            for path in filter(None, (self.certificate, self.key, self.client_ca)):
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            return None
        return digest.digest()


@dataclass(frozen=True)
class Listen:
    """Where to serve, and with which certificates; no certificates means plain HTTP."""

    host: str
    port: int
    tls: TlsFiles | None = None


def make_context(files: TlsFiles, *, http2: bool = False) -> ssl.SSLContext:
    """Return how connections are made with these files, by HTTP/2 where clients know it and it is wanted.

    Raises:
        ConfigurationError: they cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols([H2, H1] if http2 else [H1])
    try:
        # An empty password, so that nobody is asked for one.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"certificate {files.certificate} with key {files.key} cannot be used: {exc}") from exc
    if files.client_ca is None:
        return context
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(f"authority {files.client_ca} cannot be used: {exc}") from exc
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def list_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the common names and DNS names of a verified certificate, as `ssl.SSLSocket.getpeercert` shows it."""
    found = certificate or {}
    common = {value for part in found.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"})
