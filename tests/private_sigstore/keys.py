"""Keys of signers, authorities and logs, each signing as its kind does by default everywhere in Sigstore."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Literal, Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

__all__ = ["Key", "LogIdentity", "b64"]

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def b64(data: bytes) -> str:
    """Standard base64 as text."""
    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Key:
    """A private key."""

    private: PrivateKey

    @classmethod
    def new(cls, kind: Literal["ecdsa", "rsa", "ed25519"] = "ecdsa") -> Self:
        """A fresh key: ECDSA over P-256, RSA of 2048 bits or ed25519."""
        if kind == "rsa":
            return cls(rsa.generate_private_key(public_exponent=65537, key_size=2048))
        if kind == "ed25519":
            return cls(ed25519.Ed25519PrivateKey.generate())
        return cls(ec.generate_private_key(ec.SECP256R1()))

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`: ECDSA and RSA (PKCS #1 v1.5) over its SHA-256, ed25519 over itself."""
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            return self.private.sign(data)
        return self.private.sign(data, ec.ECDSA(hashes.SHA256()))

    @property
    def spki(self) -> bytes:
        """The public key as DER."""
        return self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    @property
    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def private_pem(self) -> bytes:
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the public key: the ID of a log, the hint of a bundle."""
        return hashlib.sha256(self.spki).digest()


@dataclass(frozen=True)
class LogIdentity:
    """The key of a log and the ID that it goes by; they belong together unless a test parts them."""

    key: Key = field(default_factory=Key.new)
    log_id: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "log_id", self.log_id or self.key.fingerprint)

    def impostor(self) -> LogIdentity:
        """One that claims this log's ID and has another key."""
        return LogIdentity(Key.new(), self.log_id)
