"""Public keys and their use to verify signatures."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

_MINIMUM_RSA_BITS = 2048
_CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
_PEM_BEGIN = b"-----BEGIN "
_CURVE_HASHES: dict[str, hashes.HashAlgorithm] = {"secp384r1": hashes.SHA384(), "secp521r1": hashes.SHA512()}


@dataclass(frozen=True)
class PublicKey:
    """A public key.

    Attributes:
        key: the key object from `cryptography`.
        der: the SubjectPublicKeyInfo of the key.
    """

    key: PublicKeyTypes
    der: bytes

    @property
    def fingerprint(self) -> str:
        """The hash of the SubjectPublicKeyInfo, in the form `sha256:…`."""
        return f"sha256:{hashlib.sha256(self.der).hexdigest()}"

    @property
    def hint(self) -> str:
        """The key hint in cosign bundles: the base64 form of the same hash."""
        return base64.b64encode(hashlib.sha256(self.der).digest()).decode()

    @property
    def weakness(self) -> str | None:
        """The reason why signatures with the key are rejected, as a noun phrase; None if they are accepted."""
        if isinstance(self.key, rsa.RSAPublicKey) and self.key.key_size < _MINIMUM_RSA_BITS:
            return f"an RSA key of {self.key.key_size} bits, fewer than {_MINIMUM_RSA_BITS}"
        if isinstance(self.key, ec.EllipticCurvePublicKey) and self.key.curve.name not in _CURVES:
            return f"an ECDSA key on the curve {self.key.curve.name}"
        if not isinstance(self.key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
            return f"a key of the kind {type(self.key).__name__}"
        return None

    def check(self, signature: bytes, data: bytes) -> None:
        """Check the signature of the given data.

        cosign uses SHA-256 for all curves. Other tools use the hash function that matches the curve.

        Raises:
            RejectedError: the signature was not created with this key, or the key type is not supported.
        """
        if isinstance(self.key, ec.EllipticCurvePublicKey):
            curve_hash = _CURVE_HASHES.get(self.key.curve.name, hashes.SHA256())
            if any(self._is_signed(signature, data, algorithm) for algorithm in (hashes.SHA256(), curve_hash)):
                return
            raise RejectedError(RejectionReason.SIGNATURE_INVALID, "the signature was not made with this key")
        if not self._is_signed(signature, data, hashes.SHA256()):
            raise RejectedError(RejectionReason.SIGNATURE_INVALID, "the signature was not made with this key")

    def check_digest(self, signature: bytes, digest: bytes) -> None:
        """Check a signature of data for which only the SHA-256 digest is given.

        Raises:
            RejectedError: the signature was not created with this key, or this key type requires the data instead of a
                digest.
        """
        if isinstance(self.key, ed25519.Ed25519PublicKey):
            raise RejectedError(
                RejectionReason.SIGNATURE_INVALID, "an Ed25519 signature requires the file, not only its digest"
            )
        if not self._is_signed(signature, digest, Prehashed(hashes.SHA256())):
            raise RejectedError(RejectionReason.SIGNATURE_INVALID, "the signature was not made with this key")

    def _is_signed(self, signature: bytes, data: bytes, algorithm: hashes.HashAlgorithm | Prehashed) -> bool:
        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(signature, data, ec.ECDSA(algorithm))
            elif isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, data)
            elif isinstance(self.key, rsa.RSAPublicKey):
                self.key.verify(signature, data, padding.PKCS1v15(), algorithm)
            else:
                raise RejectedError(
                    RejectionReason.SIGNATURE_INVALID, f"keys of the kind {type(self.key).__name__} are not supported"
                )
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            return False
        return True


def wrap_public_key(key: PublicKeyTypes) -> PublicKey:
    """Return the public key for a key object from `cryptography`."""
    return PublicKey(key, key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def load_public_keys(pem: bytes, where: str) -> tuple[PublicKey, ...]:
    """Return the public keys in a policy, which must contain at least one key.

    Raises:
        ConfigurationError: a key cannot be read, is a private key, or is too weak.
    """
    if b"PRIVATE KEY" in pem:
        raise ConfigurationError(
            f"{where} contains a private key; a public key is required", next_step="use the public key, cosign.pub"
        )
    blocks = [_PEM_BEGIN + each for each in pem.split(_PEM_BEGIN)[1:]]
    if not blocks:
        raise ConfigurationError(f"{where} contains no public key in PEM format")
    try:
        keys = tuple(wrap_public_key(load_pem_public_key(block)) for block in blocks)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigurationError(f"{where} contains an invalid public key: {exc}") from exc
    for each in keys:
        if weakness := each.weakness:
            raise ConfigurationError(f"{where} contains {weakness}", next_step="use an ECDSA, RSA or Ed25519 key")
    return keys
