"""HTTPS for a `HostileRegistry`, by an authority that only the test knows."""

from __future__ import annotations

import ssl
from pathlib import Path

from accelkit.install.certificates.issuing import Authority

__all__ = ["serving"]


def serving(folder: Path, name: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """What to serve with under a name or address, and the file of the authority to trust; both lie in `folder`."""
    authority = Authority("registry of the test")
    pair = authority.issue_server(name, [name])
    trusted, chain = folder / "ca.pem", folder / "server.pem"
    trusted.write_bytes(authority.certificate)
    chain.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context, trusted
