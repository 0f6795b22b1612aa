"""Desired state of caches on a node: the digest, the mount path and the controller's verdict.

A cache with a delivery other than `node` requires only verdicts for the node's cards, but no files on the node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelkit.errors import CacheError
from accelkit.gkm import names
from accelkit.gkm.conditions import Condition, ConditionType, find_condition, is_refusal
from accelkit.gkm.objects import Cache, Delivery
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.oci.reference import Reference, is_digest, parse_reference


@dataclass(frozen=True)
class Refusal:
    """Reason why pods cannot use a digest, with a message for users."""

    reason: str
    message: str


@dataclass(frozen=True)
class DesiredCache:
    """Desired state of one cache on each node.

    A cache without a digest requires no work, although pods may still use previous digests.

    Attributes:
        key: `NAMESPACE/NAME`, or `/NAME` for a ClusterGKMCache.
        namespaces: namespaces whose workloads may use the cache.
        image: image reference with the digest; None if the cache has no digest.
        mount_path: path at which workloads mount the cache.
        folder: name of the folder in the store; empty if the cache has no digest or nodes do not store its files.
        verified: whether the signatures satisfy the policies; None if this is currently unknown.
        refusal: reason why the cache is rejected; None if it is not rejected.
        secrets: names of the pull secrets in the cache's namespace.
        cache_bytes: size of the files according to the image; 0 if the image does not specify the size.
        delivered: whether nodes store the files of the cache.
        has_variables: whether the status of the cache contains the recorded variables of the image.
        former_digests: previous digests that pods may still use.
    """

    key: str
    namespaces: tuple[str, ...]
    image: Reference | None = None
    mount_path: str = ""
    folder: str = ""
    verified: bool | None = None
    refusal: Refusal | None = None
    secrets: tuple[str, ...] = ()
    cache_bytes: int = 0
    delivered: bool = True
    has_variables: bool = False
    former_digests: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace of the cache; empty for a ClusterGKMCache."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The name of the cache."""
        return names.name_claim(self.key)

    @property
    def digest(self) -> str:
        """The desired digest; empty if there is no digest."""
        return (self.image.digest or "") if self.image is not None else ""

    @property
    def folders(self) -> frozenset[str]:
        """The prefixes of the cache's folder names in the store. They do not depend on the mount path."""
        return frozenset(names.name_folder(each, "") for each in (self.digest, *self.former_digests) if each)

    @property
    def link(self) -> str:
        """The name of the cache's link in the folder `claims`."""
        return Path(names.build_link_path(self.key)).name


def is_delivered_here(cache: Cache) -> bool:
    """Return whether nodes store the files of a cache."""
    return cache.status.delivery == Delivery.NODE


def trim_cache(cache: Cache) -> None:
    """Remove the fields of a cache that the agent does not use."""
    cache.spec.pod_template = None
    cache.metadata.finalizers_text = msgspec.Raw(b"null")


def read_desired_cache(cache: Cache) -> DesiredCache:
    """Return the desired state of a cache on each node.

    Raises:
        CacheError: the status of the cache is invalid.
    """
    status = cache.status
    verified = find_condition(status.conditions, ConditionType.VERIFIED)
    desired = DesiredCache(
        key=cache.key,
        namespaces=cache.namespaces,
        # Ignore a verdict on an image that is not in the spec, so that the agent fetches only images that users
        # specified.
        verified=_read_verified(verified) if status.resolved_image in {"", cache.spec.image} else None,
        refusal=_read_refusal(verified),
        delivered=is_delivered_here(cache),
        former_digests=tuple(each for each in status.previous_digests if is_digest(each)),
    )
    if not status.resolved_digest:
        return desired
    if not is_digest(status.resolved_digest):
        raise CacheError(f"the status of {cache.key} has the invalid digest {status.resolved_digest[:80]!r}")
    image = parse_reference(status.resolved_image or cache.spec.image).with_digest(status.resolved_digest)
    secrets = tuple(each.name for each in cache.spec.image_pull_secrets if each.name)
    if not desired.delivered:
        return replace(desired, image=image, secrets=secrets)
    place = Place.of(Path("/"), status.resolved_digest, status.mount_path or None)
    folder = names.name_folder(status.resolved_digest, status.mount_path)
    if place.folder.name != folder:
        raise CacheError(f"the mount path {status.mount_path[:200]!r} of {cache.key} is not normalized")
    return replace(
        desired,
        image=image,
        mount_path=status.mount_path,
        folder=folder,
        secrets=secrets,
        cache_bytes=max(0, status.cache_bytes),
        has_variables=bool(status.recorded_environment),
    )


def _read_verified(condition: Condition | None) -> bool | None:
    if condition is not None and condition.status == "True":
        return True
    return False if is_refusal(condition) else None


def _read_refusal(condition: Condition | None) -> Refusal | None:
    return Refusal(condition.reason, condition.message) if condition is not None and is_refusal(condition) else None
