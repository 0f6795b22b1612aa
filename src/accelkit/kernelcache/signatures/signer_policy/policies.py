"""Data model for signer policies: the covered images and the accepted signers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.keys import PublicKey
from accelkit.kernelcache.signatures.text_patterns import TextMatch, compile_glob
from accelkit.kernelcache.signatures.trust import Authorities, TrustRoot

ALL_NAMESPACES = ("*",)
# One day. Revoked signatures are accepted for at most this time, and a registry may be unreachable overnight.
VERDICT_TTL_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Signer:
    """A signer in a policy.

    Attributes:
        name: the name of the signer, for messages.
        log_required: whether an entry in the transparency log must prove the signing time.
        annotations: the claims that the signature must contain in addition to the digest.
        issuer: the required issuer of the identity; None for keys, and for private authorities without a required
            issuer.
        subject: the required subject of the certificate; None for keys, and for private authorities without a required
            subject.
        keys: public keys; the signature must be created with one of these keys.
        authorities: the certificates of a private authority; None for keys and for Sigstore's authorities.
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
        """Whether the signer must use a certificate from Sigstore's certificate authority."""
        return not self.keys and self.authorities is None


@dataclass(frozen=True)
class SignerPolicy:
    """A signer policy.

    Attributes:
        name: the name of the policy, for messages.
        images: the patterns for the names of the images that the policy covers.
        signers: the accepted signers; a signature from one of these signers is sufficient.
        namespaces: the patterns for the namespaces to which the policy applies.
        verdict_ttl_seconds: the time, in seconds, for which a successful verification is valid before the signatures
            are fetched again; 0 to fetch the signatures each time.
    """

    name: str
    images: tuple[str, ...]
    signers: tuple[Signer, ...]
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    verdict_ttl_seconds: int = VERDICT_TTL_SECONDS

    def covers(self, image: Reference, namespace: str | None = None) -> bool:
        """Return whether the policy covers an image in a namespace; None means no specific namespace."""
        if namespace is None:
            if all(pattern.strip("*") for pattern in self.namespaces):
                return False
        elif not any(glob.fullmatch(namespace) for glob in self._namespace_globs):
            return False
        return any(glob.fullmatch(image.name) for glob in self._image_globs)

    # The patterns are compiled once for all images in a cluster, because compilation takes a hundred times as long as a
    # match.
    @cached_property
    def _image_globs(self) -> tuple[Any, ...]:
        return tuple(compile_glob(pattern) for pattern in self.images)

    @cached_property
    def _namespace_globs(self) -> tuple[Any, ...]:
        return tuple(compile_glob(pattern) for pattern in self.namespaces)


@dataclass(frozen=True)
class SignerPolicies:
    """A set of policies with the same trusted root.

    Attributes:
        policies: the policies; if there are none, all images are rejected.
        trust: Sigstore's keys and authorities.
        digest: the digest of all policies and files that affect a verdict. It is used to detect whether a stored
            verdict is based on the current policies.
    """

    policies: tuple[SignerPolicy, ...]
    trust: TrustRoot
    digest: str = ""

    def select(self, image: Reference, namespace: str | None = None) -> tuple[SignerPolicy, ...]:
        """Return the policies that cover an image. If there are none, the image is rejected."""
        return tuple(policy for policy in self.policies if policy.covers(image, namespace))

    def find_verdict_ttl(self, image: Reference, namespace: str | None = None) -> int:
        """Return the lowest `verdict_ttl_seconds` of the policies that cover an image; 0 if there are none."""
        return min((each.verdict_ttl_seconds for each in self.select(image, namespace)), default=0)
