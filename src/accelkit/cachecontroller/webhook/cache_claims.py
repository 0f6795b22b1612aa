"""Claims of caches in a namespace, and their digests."""

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
    """A claim that a pod names.

    Attributes:
        cache: cache of the claim.
        digest: digest that the pod gets; empty if no digest is verified, in which case the pod waits for the claim that
            follows the cache.
    """

    cache: Cache
    digest: str = ""

    @property
    def name(self) -> str:
        """Claim that the pod must mount."""
        return name_pinned_claim(self.cache.key, self.digest) if self.digest else name_claim(self.cache.key)

    @property
    def mount_path(self) -> str:
        """Path for which the cache is prepared; empty if it is not decided."""
        return self.cache.status.mount_path or self.cache.spec.mount_path

    @property
    def by_image(self) -> bool:
        """Whether pods get it as an image volume, so that no claim is ever created."""
        return (self.cache.status.delivery or self.cache.spec.delivery.value) == Delivery.IMAGE.value

    def find_refusal(self, namespace: str, *, has_image: bool = False) -> str:
        """Return why new pods of a namespace must not mount it; empty if they may.

        Args:
            namespace: namespace of the pod.
            has_image: whether an image volume provides its digest.
        """
        cache = self.cache
        if cache.metadata.deletion_timestamp is not None:
            return f"kernel cache {cache.key} is being deleted; mount another one, or wait until it is made again"
        verified = find_condition(cache.status.conditions, ConditionType.VERIFIED)
        # Without a claim, the pod waits for one. With a claim, the pod would start with files that are no longer
        # verified. Pinned claims stay as long as other pods use them.
        there = bool(self.digest) or namespace in cache.status.pvc_status
        if verified is not None and verified.status == "False" and there:
            why = shorten(f"{verified.reason}: {verified.message}".rstrip(": "), 300)
            return (
                f"kernel cache {cache.key} is not verified ({why}); its status has more, and a SignerPolicy that names "
                f"its signer lets pods mount it"
            )
        if self.by_image and not has_image:
            return (
                f"kernel cache {cache.key} comes to pods as an image volume, and cannot yet ({self._explain()}); "
                f"create the pod again once it is ready, or take delivery node or namespace"
            )
        return ""

    def _explain(self) -> str:
        conditions = self.cache.status.conditions
        found = (find_condition(conditions, each) for each in (ConditionType.READY, ConditionType.VERIFIED))
        condition = next((each for each in found if each is not None and each.status != "True"), None)
        if condition is None:
            return "its image is not resolved so far"
        return shorten(f"{condition.reason}: {condition.message}".rstrip(": "), 300)


class CacheClaims(dict[str, CacheClaim]):
    """Claims of caches in a namespace, by name.

    A pod may have thousands of volumes, and its namespace as many caches, so claims are found by index.
    """

    @cached_property
    def of_beginnings(self) -> dict[str, str]:
        """Claims that follow a cache, by the prefix of the pinned claims of the same cache."""
        found: dict[str, str] = {}
        for name, each in self.items():
            found.setdefault(begin_pinned_claim(each.cache.key), name)
        return found

    @cached_property
    def of_images(self) -> dict[str, CacheClaim]:
        """Claims of caches with image volumes, by digest."""
        found: dict[str, CacheClaim] = {}
        for each in self.values():
            if each.cache.status.delivery == Delivery.IMAGE.value and each.digest:
                found.setdefault(each.digest, each)
        return found


def list_claims(caches: Iterable[Cache], namespace: str) -> CacheClaims:
    """Return the claims of caches in a namespace by name: those that follow a cache, and those of its digests.

    A claim that has the name of a cache but another owner is left out, because it contains user data.
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
    """Return the cache of a pod's volume, by its claim or by the digest of its image; None for other volumes."""
    claim = volume.get("persistentVolumeClaim")
    if claim is not None:
        return claims.get(str(claim.get("claimName") or ""))
    _, _, digest = str((volume.get("image") or {}).get("reference") or "").partition("@")
    return claims.of_images.get(digest)


def find_unknown_digest(claims: CacheClaims, claim: str) -> str:
    """Return the cache if a claim names an unknown digest of it; empty otherwise."""
    begins, _ = split_pinned_claim(claim)
    if not begins or claim in claims:
        return ""
    return claims.of_beginnings.get(begins, "")


def _is_taken(cache: Cache, namespace: str) -> bool:
    state = cache.status.pvc_status.get(namespace)
    return state is not None and any(each.reason == Reason.CLAIM_EXISTS.value for each in state.conditions)
