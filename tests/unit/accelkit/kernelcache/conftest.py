"""Certificates and signatures of the tests, and the TLS context of their registries."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from private_sigstore import PrivateSigstore


@pytest.fixture(scope="session")
def ca_file(tmp_path_factory) -> Path:
    """A self-signed certificate for 127.0.0.1; its key lies beside it."""
    folder = tmp_path_factory.mktemp("registry-tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry of the tests")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return folder / "ca.pem"


@pytest.fixture(scope="session")
def tls(ca_file: Path) -> ssl.SSLContext:
    """What a registry serves HTTPS with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, ca_file.with_name("key.pem"))
    return context


@pytest.fixture(scope="module")
def sigstore() -> PrivateSigstore:
    return PrivateSigstore.new()
