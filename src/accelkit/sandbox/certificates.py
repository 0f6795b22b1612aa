"""Keys of service accounts, and kubeconfigs that carry certificates."""

from __future__ import annotations

import base64

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.install.certificates import Authority, KeyPair, private_pem

__all__ = ["Authority", "KeyPair", "encode_kubeconfig", "generate_service_account_keys"]


def generate_service_account_keys() -> KeyPair:
    """Return a key pair for service account tokens; the public key stands in the certificate's place."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, private_pem(key))


def encode_kubeconfig(server: str, authority: bytes, user: str, pair: KeyPair) -> bytes:
    """Return a kubeconfig with everything in it; JSON, which is YAML too."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": server, "certificate-authority-data": _b64(authority)}}],
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": _b64(pair.certificate), "client-key-data": _b64(pair.key)},
            }
        ],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
        "current-context": "sandbox",
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
