"""Policies as values: which images they cover, and who may sign these."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.keys import PublicKey
from accelkit.kernelcache.signatures.matching import TextMatch, compile_glob
from accelkit.kernelcache.signatures.trust import Authorities, TrustRoot

ALL_NAMESPACES = ("*",)
# A day: what a signer takes back counts no longer than that, and a registry may be away for a night.
VERDICT_TTL_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Signer:
    """Somebody who may sign.

    Attributes:
        name: for messages.
        log_required: whether an entry of the transparency log must prove when it was signed.
        annotations: what the signature itself must say beside the digest.
        issuer: of the identity; None for keys, and for authorities that are trusted as a whole.
        subject: of the certificate; None as above.
        keys: public keys, one of which must have signed.
        authorities: a private authority; None for keys and for Sigstore's own.
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
        """Whether the certificate comes from Sigstore's certificate authority."""
        return not self.keys and self.authorities is None


@dataclass(frozen=True)
class SignerPolicy:
    """Who may sign some images.

    Attributes:
        name: for messages.
        images: patterns of names.
        signers: one of them is enough.
        namespaces: patterns of those that it is for.
        verdict_ttl_seconds: how long a verdict in favour of an image is believed before its signatures are looked for
            again; 0 for not at all.
    """

    name: str
    images: tuple[str, ...]
    signers: tuple[Signer, ...]
    namespaces: tuple[str, ...] = ALL_NAMESPACES
    verdict_ttl_seconds: int = VERDICT_TTL_SECONDS

    def covers(self, image: Reference, namespace: str | None = None) -> bool:
        """Whether this policy speaks of an image, for a namespace; None means no particular one."""
        if namespace is None:
            if all(pattern.strip("*") for pattern in self.namespaces):
                return False
        elif not any(glob.fullmatch(namespace) for glob in self._namespace_globs):
            return False
        return any(glob.fullmatch(image.name) for glob in self._image_globs)

    # Once for all images of a cluster: compiling takes a hundred times as long as matching.
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
        policies: none of them means that every image is refused.
        trust: Sigstore's keys and authorities.
        digest: of everything that decides, so that a verdict can be kept with what it rests on.
    """

    policies: tuple[SignerPolicy, ...]
    trust: TrustRoot
    digest: str = ""

    def select(self, image: Reference, namespace: str | None = None) -> tuple[SignerPolicy, ...]:
        """Return the policies that speak of an image; none means that it is refused."""
        return tuple(policy for policy in self.policies if policy.covers(image, namespace))

    def find_verdict_ttl(self, image: Reference, namespace: str | None = None) -> int:
        """Return for how many seconds a verdict in favour of an image is believed: the shortest time counts."""
        return min((each.verdict_ttl_seconds for each in self.select(image, namespace)), default=0)
