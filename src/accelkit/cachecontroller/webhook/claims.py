"""Which claims of a namespace are those of caches, and of which digest each is."""

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
        cache: whose it is.
        digest: that the pod gets; empty while none is verified, and the pod waits for the claim that follows the cache.
    """

    cache: Cache
    digest: str = ""

    @property
    def name(self) -> str:
        """The claim that the pod is to mount."""
        return name_pinned_claim(self.cache.key, self.digest) if self.digest else name_claim(self.cache.key)

    @property
    def mount_path(self) -> str:
        """Where workloads see the cache, as it was prepared; empty while that is not decided."""
        return self.cache.status.mount_path or self.cache.spec.mount_path

    @property
    def by_image(self) -> bool:
        """Whether pods get it as an image volume, so that no claim is ever made."""
        return (self.cache.status.delivery or self.cache.spec.delivery.value) == Delivery.IMAGE.value

    def find_refusal(self, namespace: str, *, has_image: bool = False) -> str:
        """Return why no new pod of a namespace may mount it; empty where one may.

        Args:
            namespace: of the pod.
            has_image: whether an image volume shows its digest.
        """
        cache = self.cache
        if cache.metadata.deletion_timestamp is not None:
            return f"kernel cache {cache.key} is being deleted; mount another one, or wait until it is made again"
        verified = find_condition(cache.status.conditions, ConditionType.VERIFIED)
        # Without a claim, the pod waits for it; with one, it would start with what nobody vouches for any more. That of
        # a digest stays as long as other pods have it.
        there = bool(self.digest) or namespace in cache.status.pvc_status
        if verified is not None and verified.status == "False" and there:
            why = shorten(f"{verified.reason}: {verified.message}".rstrip(": "), 300)
            return (
                f"kernel cache {cache.key} is not verified ({why}); its status has more, and a SignerPolicy that names "
                f"its signer lets pods mount it"
            )
        if self.by_image and not has_image:
            return (
                f"kernel cache {cache.key} comes to pods as an image volume, and cannot yet ({self._say_why()}); "
                f"create the pod again once it is ready, or take delivery node or namespace"
            )
        return ""

    def _say_why(self) -> str:
        conditions = self.cache.status.conditions
        found = (find_condition(conditions, each) for each in (ConditionType.READY, ConditionType.VERIFIED))
        said = next((each for each in found if each is not None and each.status != "True"), None)
        if said is None:
            return "its image is not resolved so far"
        return shorten(f"{said.reason}: {said.message}".rstrip(": "), 300)


class Claims(dict[str, CacheClaim]):
    """The claims of caches in a namespace, by name.

    A pod may have thousands of volumes, and its namespace as many caches: each is looked up, not searched for.
    """

    @cached_property
    def of_beginnings(self) -> dict[str, str]:
        """The claims that follow a cache, by what stands before the digits in the names of those of its digests."""
        found: dict[str, str] = {}
        for name, each in self.items():
            found.setdefault(begin_pinned_claim(each.cache.key), name)
        return found

    @cached_property
    def of_images(self) -> dict[str, CacheClaim]:
        """Those that come to pods as image volumes, by digest."""
        found: dict[str, CacheClaim] = {}
        for each in self.values():
            if each.cache.status.delivery == Delivery.IMAGE.value and each.digest:
                found.setdefault(each.digest, each)
        return found


def list_claims(caches: Iterable[Cache], namespace: str) -> Claims:
    """Return the claims of caches in a namespace by name: those that follow a cache, and those of its digests.

    A claim that is not the controller's, though it has the name of a cache, is left out: it is somebody's data.
    """
    claims = Claims()
    # A namespace's own cache comes before one of the cluster with the same name.
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


def find_claim(volume: Mapping[str, Any], claims: Claims) -> CacheClaim | None:
    """Return the cache that a volume of a pod is of, by its claim or by the digest of its image; None for others."""
    claim = volume.get("persistentVolumeClaim")
    if claim is not None:
        return claims.get(str(claim.get("claimName") or ""))
    _, _, digest = str((volume.get("image") or {}).get("reference") or "").partition("@")
    return claims.of_images.get(digest)


def find_unknown_digest(claims: Claims, claim: str) -> str:
    """Return the cache of which a claim names a digest that it does not have; empty where it names none."""
    begins, _ = split_pinned_claim(claim)
    if not begins or claim in claims:
        return ""
    return claims.of_beginnings.get(begins, "")


def _is_taken(cache: Cache, namespace: str) -> bool:
    state = cache.status.pvc_status.get(namespace)
    return state is not None and any(each.reason == Reason.CLAIM_EXISTS.value for each in state.conditions)
