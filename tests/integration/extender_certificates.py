"""Certificates of an extender and its clients, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from accelkit.install.certificates.issuing import Authority, KeyPair


def write_certificates(folder: Path, authority: Authority, clients: Mapping[str, KeyPair]) -> Path:
    """Write the authority's certificate, one of the server, and those of clients by name; return the folder."""
    pairs = {"server": authority.issue_server("accelkit-extender", ("127.0.0.1", "localhost")), **clients}
    for name, pair in pairs.items():
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    return folder


def list_server_options(pki: Path) -> list[str]:
    """Return the options by which an extender serves TLS to clients of the authority."""
    server = ["--tls-cert", str(pki / "server.crt"), "--tls-key", str(pki / "server.key")]
    return [*server, "--client-ca", str(pki / "ca.crt")]
