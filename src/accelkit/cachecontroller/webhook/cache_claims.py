"""Claims of the caches in a namespace, and the digest of each claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accelkit.gkm.conditions import ConditionType, Reason, find_condition, holds
from accelkit.gkm.names import begin_pinned_claim, name_claim, name_pinned_claim, split_pinned_claim
from accelkit.gkm.objects import Cache, Delivery
from accelkit.texts import shorten


@dataclass(frozen=True, slots=True)
class CacheClaim:
    """Claim of a cache in a pod.

    Attributes:
        cache: cache of the claim.
        digest: digest that the pod uses; empty if no digest is verified yet. In this case, the pod waits for the claim
            with the name of the cache.
    """

    cache: Cache
    digest: str = ""

    @property
    def name(self) -> str:
        """Name of the claim that the pod must mount."""
        return name_pinned_claim(self.cache.key, self.digest) if self.digest else name_claim(self.cache.key)

    @property
    def mount_path(self) -> str:
        """Mount path for which the files are prepared; empty if the path is not known yet."""
        return self.cache.status.mount_path or self.cache.spec.mount_path

    @property
    def by_image(self) -> bool:
        """Whether pods mount the cache as an image volume instead of a claim."""
        return (self.cache.status.delivery or self.cache.spec.delivery.value) == Delivery.IMAGE.value

    def find_refusal(self, namespace: str, *, has_image: bool = False) -> str:
        """Return the reason why new pods in a namespace must not mount the claim; empty if they may mount it.

        Args:
            namespace: namespace of the pod.
            has_image: whether an image volume with the digest is available.
        """
        cache = self.cache
        if cache.metadata.deletion_timestamp is not None:
            return f"kernel cache {cache.key} is being deleted; mount another cache, or wait until it is created again"
        verified = find_condition(cache.status.conditions, ConditionType.VERIFIED)
        # If the claim does not exist, the pod waits. If the claim exists, the pod would start with files that are no
        # longer verified. A pinned claim exists while other pods use it.
        there = bool(self.digest) or namespace in cache.status.pvc_status
        if verified is not None and verified.status == "False" and there:
            why = shorten(f"{verified.reason}: {verified.message}".rstrip(": "), 300)
            return (
                f"kernel cache {cache.key} is not verified ({why}); see the status of the cache, and add its signer "
                f"to a SignerPolicy"
            )
        if self.by_image and not has_image:
            return (
                f"kernel cache {cache.key} cannot be mounted as an image volume yet ({self._explain()}); "
                f"create the pod again when the cache is ready, or use delivery node or namespace"
            )
        return ""

    def _explain(self) -> str:
        conditions = self.cache.status.conditions
        found = (find_condition(conditions, each) for each in (ConditionType.READY, ConditionType.VERIFIED))
        condition = next((each for each in found if each is not None and each.status != "True"), None)
        if condition is None:
            return "the image is not resolved yet"
        return shorten(f"{condition.reason}: {condition.message}".rstrip(": "), 300)


class CacheClaims(dict[str, CacheClaim]):
    """Claims of the caches in a namespace, keyed by name.

    Lookups use an index, because a pod can have thousands of volumes, and a namespace can have thousands of caches.
    """

    @cached_property
    def of_beginnings(self) -> dict[str, str]:
        """Names of the claims for the current digests, keyed by the name prefix of the cache's pinned claims."""
        found: dict[str, str] = {}
        for name, each in self.items():
            found.setdefault(begin_pinned_claim(each.cache.key), name)
        return found

    @cached_property
    def of_images(self) -> dict[str, CacheClaim]:
        """Claims of caches with delivery `image`, keyed by digest."""
        found: dict[str, CacheClaim] = {}
        for each in self.values():
            if each.cache.status.delivery == Delivery.IMAGE.value and each.digest:
                found.setdefault(each.digest, each)
        return found


def list_claims(caches: Iterable[Cache], namespace: str) -> CacheClaims:
    """Return the claims of the caches in a namespace: the claims for the current digests, and the pinned claims.

    A claim with the name of a cache but another owner is omitted, because it contains user data.
    """
    claims = CacheClaims()
    # A cache in the namespace takes precedence over a ClusterGKMCache with the same name.
    for cache in sorted(caches, key=lambda each: each.of_cluster):
        name = name_claim(cache.key)
        if namespace not in cache.namespaces or name in claims or _is_taken(cache, namespace):
            continue
        status = cache.status
        current = status.resolved_digest if holds(status.conditions, ConditionType.VERIFIED) else ""
        claims[name] = CacheClaim(cache, current)
        for digest in filter(None, (current, *status.previous_digests)):
            claims.setdefault(name_pinned_claim(cache.key, digest), CacheClaim(cache, digest))
    return claims


def find_claim(volume: Mapping[str, Any], claims: CacheClaims) -> CacheClaim | None:
    """Return the cache claim of a volume, based on its claim name or image digest; None for other volumes."""
    claim = volume.get("persistentVolumeClaim")
    if claim is not None:
        return claims.get(str(claim.get("claimName") or ""))
    _, _, digest = str((volume.get("image") or {}).get("reference") or "").partition("@")
    return claims.of_images.get(digest)


def find_unknown_digest(claims: CacheClaims, claim: str) -> str:
    """Return the name of a cache's current claim if a pinned claim's digest is unknown; otherwise, an empty string."""
    begins, _ = split_pinned_claim(claim)
    if not begins or claim in claims:
        return ""
    return claims.of_beginnings.get(begins, "")


def _is_taken(cache: Cache, namespace: str) -> bool:
    state = cache.status.pvc_status.get(namespace)
    return state is not None and any(each.reason == Reason.CLAIM_EXISTS.value for each in state.conditions)
