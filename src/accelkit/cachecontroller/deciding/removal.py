"""Deletion of a cache, which waits while pods mount its claims and until the claims no longer exist; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from accelkit.cachecontroller.cluster_view import ClaimPod, ClusterView, ObjectName
from accelkit.cachecontroller.deciding.given_claims import list_given_claims, list_pods_of, name_pods
from accelkit.cachecontroller.delivery import DeliveryMode
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheStatus
from accelkit.texts import list_some


def find_users(cache: Cache, cluster: ClusterView, modes: Iterable[DeliveryMode]) -> list[ClaimPod]:
    """Return the pods that mount a claim of the cache according to its volumes, not according to the claims."""
    return list_pods_of(list_given_claims(cache, cluster, modes), cluster)


def find_leaving(cache: Cache, cluster: ClusterView, modes: Iterable[DeliveryMode]) -> list[ObjectName]:
    """Return the claims of a cache that are deleted but still have finalizers.

    As in `find_users`, a claim counts if a volume of the cache is bound to it.
    """
    given = ((claim, cluster.find(claim)) for claim in list_given_claims(cache, cluster, modes))
    return [claim for claim, observed in given if observed is not None and observed.metadata.deletion_timestamp]


def describe_removal(cache: Cache, users: Sequence[ClaimPod]) -> CacheStatus:
    """Return the status of a cache whose deletion waits for pods; digest and claims stay as they are."""
    return _replace_ready(cache, Reason.IN_USE, f"it is deleted once no pod mounts it; these do: {name_pods(users)}")


def describe_leaving(cache: Cache, claims: Iterable[ObjectName]) -> CacheStatus:
    """Return the status of a cache whose deletion waits for claims; digest and claims stay as they are."""
    names = list_some(f"{claim.namespace}/{claim.name}" for claim in claims)
    text = f"it is deleted once its claims are removed; these are being deleted: {names}"
    return _replace_ready(cache, Reason.DELETING, text)


def _replace_ready(cache: Cache, reason: Reason, text: str) -> CacheStatus:
    ready = state(ConditionType.READY, reason, text, holds=False)
    others = [each for each in cache.status.conditions if each.type != ConditionType.READY]
    return msgspec.structs.replace(cache.status, conditions=[ready, *others])
