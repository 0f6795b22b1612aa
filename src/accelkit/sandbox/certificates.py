"""The certificates and keys of the control plane, and the kubeconfig files that contain them."""

from __future__ import annotations

import base64

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.install.certificates.issuing import Authority, KeyPair, encode_private_key
from accelkit.sandbox.layout import SandboxPaths, write_atomically

__all__ = ["Authority", "KeyPair", "encode_kubeconfig", "generate_service_account_keys", "write_certificates"]

_SERVER_NAMES = (
    *("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *("127.0.0.1", "10.96.0.1"),
)
# The user of each client certificate, and its group, if any.
_USERS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager",),
    "kube-scheduler": ("system:kube-scheduler",),
}


def write_certificates(paths: SandboxPaths, server: str) -> None:
    """Write the certificate authority, all certificates and the kubeconfig files."""
    authority = Authority("accelkit-sandbox")
    write_atomically(paths.pki / "ca.crt", authority.certificate)
    pairs = {
        "apiserver": authority.issue_server("kube-apiserver", _SERVER_NAMES),
        "sa": generate_service_account_keys(),
    }
    for name, identity in _USERS.items():
        pair = authority.issue_client(*identity)
        write_atomically(
            paths.build_kubeconfig_path(name), encode_kubeconfig(server, authority.certificate, identity[0], pair)
        )
    for name, pair in pairs.items():
        _write_pair(paths, name, pair)


def _write_pair(paths: SandboxPaths, name: str, pair: KeyPair) -> None:
    write_atomically(paths.pki / f"{name}.crt", pair.certificate)
    write_atomically(paths.pki / f"{name}.key", pair.key)


def generate_service_account_keys() -> KeyPair:
    """Return a key pair for service account tokens. The field for the certificate contains the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, encode_private_key(key))


def encode_kubeconfig(server: str, authority: bytes, user: str, pair: KeyPair) -> bytes:
    """Return a kubeconfig file with embedded certificates. Its format is JSON, which is also valid YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "sandbox", "cluster": {"server": server, "certificate-authority-data": _encode_base64(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encode_base64(pair.certificate),
                    "client-key-data": _encode_base64(pair.key),
                },
            }
        ],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
        "current-context": "sandbox",
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
