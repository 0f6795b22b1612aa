"""Deletion of a cache, which waits until no pod mounts the cache's claims and the claims are deleted.

This module performs no I/O.
"""

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
    """Return the pods that mount a claim to which a volume of the cache is bound."""
    return list_pods_of(list_given_claims(cache, cluster, modes), cluster)


def find_leaving(cache: Cache, cluster: ClusterView, modes: Iterable[DeliveryMode]) -> list[ObjectName]:
    """Return the claims of a cache that are being deleted.

    As in `find_users`, a claim belongs to the cache if a volume of the cache is bound to it.
    """
    given = ((claim, cluster.find(claim)) for claim in list_given_claims(cache, cluster, modes))
    return [claim for claim, observed in given if observed is not None and observed.metadata.deletion_timestamp]


def describe_removal(cache: Cache, users: Sequence[ClaimPod]) -> CacheStatus:
    """Return the status of a cache while its deletion waits for pods. The digest and the claims do not change."""
    return _replace_ready(cache, Reason.IN_USE, f"deletion waits for pods that mount the cache: {name_pods(users)}")


def describe_leaving(cache: Cache, claims: Iterable[ObjectName]) -> CacheStatus:
    """Return the status of a cache while its deletion waits for claims. The digest and the claims do not change."""
    names = list_some(f"{claim.namespace}/{claim.name}" for claim in claims)
    text = f"deletion waits for claims that are being deleted: {names}"
    return _replace_ready(cache, Reason.DELETING, text)


def _replace_ready(cache: Cache, reason: Reason, text: str) -> CacheStatus:
    ready = state(ConditionType.READY, reason, text, holds=False)
    others = [each for each in cache.status.conditions if each.type != ConditionType.READY]
    return msgspec.structs.replace(cache.status, conditions=[ready, *others])
