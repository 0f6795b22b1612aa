"""Signer policies as values: the images that they cover, and the signers of those images."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.keys import PublicKey
from accelkit.kernelcache.signatures.matching import TextMatch, compile_glob
from accelkit.kernelcache.signatures.trust import Authorities, TrustRoot

ALL_NAMESPACES = ("*",)
# One day: revoked signatures are accepted for at most this long, and a registry may be unreachable overnight.
VERDICT_TTL_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Signer:
    """A signer in a policy.

    Attributes:
        name: the name of the signer, for messages.
        log_required: whether an entry in the transparency log must verify the time of the signature.
        annotations: the required claims of the signature in addition to the digest.
        issuer: the issuer of the identity; None for keys, and for authorities that are trusted as a whole.
        subject: the subject of the certificate; None for keys, and for authorities that are trusted as a whole.
        keys: public keys; the signature must be made with one of them.
        authorities: a private authority; None for keys and for Sigstore's authorities.
    """

    name: str
    log_required: bool = True
    annotations: dict[str, str] = field(default_factory=dict)
    issuer: TextMatch | None = None
    subject: TextMatch | None = None
    keys: tuple[PublicKey, ...] = ()
    authorities: Authorities | None = None

    @property
    def keyless(self) -> bool:
        """Whether the signer has a certificate from Sigstore's certificate authority."""
        return not self.keys and self.authorities is None


@dataclass(frozen=True)
class SignerPolicy:
    """A signer policy.

    Attributes:
        name: the name of the policy, for messages.
        images: the patterns of the names of images that it covers.
        signers: the accepted signers; a signature by one of them is sufficient.
        namespaces: the patterns of the namespaces to which it applies.
        verdict_ttl_seconds: the time in seconds for which a successful verification is valid before the signatures are
            fetched again; 0 if they are fetched each time.
    """

    name: str
    images: tuple[str, ...]
    signers: tuple[Signer, ...]
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    verdict_ttl_seconds: int = VERDICT_TTL_SECONDS

    def covers(self, image: Reference, namespace: str | None = None) -> bool:
        """Return whether the policy covers an image in a namespace; None means no particular namespace."""
        if namespace is None:
            if all(pattern.strip("*") for pattern in self.namespaces):
                return False
        elif not any(glob.fullmatch(namespace) for glob in self._namespace_globs):
            return False
        return any(glob.fullmatch(image.name) for glob in self._image_globs)

    # Compiled once for all images in a cluster, because compiling takes a hundred times as long as a match.
    @cached_property
    def _image_globs(self) -> tuple[Any, ...]:
        return tuple(compile_glob(pattern) for pattern in self.images)

    @cached_property
    def _namespace_globs(self) -> tuple[Any, ...]:
        return tuple(compile_glob(pattern) for pattern in self.namespaces)


@dataclass(frozen=True)
class SignerPolicies:
    """Several policies, with the trusted root that they share.

    Attributes:
        policies: the policies; without policies, every image is rejected.
        trust: Sigstore's keys and authorities.
        digest: the digest of all inputs of a verdict, so that a stored verdict can be compared with the current
            policies.
    """

    policies: tuple[SignerPolicy, ...]
    trust: TrustRoot
    digest: str = ""

    def select(self, image: Reference, namespace: str | None = None) -> tuple[SignerPolicy, ...]:
        """Return the policies that cover an image; without such policies, the image is rejected."""
        return tuple(policy for policy in self.policies if policy.covers(image, namespace))

    def find_verdict_ttl(self, image: Reference, namespace: str | None = None) -> int:
        """Return the time in seconds for which a successful verification is valid: the lowest value of the policies."""
        return min((each.verdict_ttl_seconds for each in self.select(image, namespace)), default=0)
