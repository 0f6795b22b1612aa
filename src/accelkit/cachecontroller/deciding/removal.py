"""Whether a cache that is being deleted can go: not while pods mount one of its claims; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from accelkit.cachecontroller.deciding.given_claims import list_given_claims, list_pods_of, name_pods
from accelkit.cachecontroller.delivery import DeliveryMode
from accelkit.cachecontroller.shown import ClaimPod, Shown
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheStatus


def find_users(cache: Cache, shown: Shown, modes: Iterable[DeliveryMode]) -> list[ClaimPod]:
    """Return the pods that mount a claim of ours, as our volumes tell; what a claim says of itself does not count."""
    return list_pods_of(list_given_claims(cache, shown, modes), shown)


def describe_removal(cache: Cache, users: Sequence[ClaimPod]) -> CacheStatus:
    """Return the status of a cache whose deletion waits for pods; digest and claims stay as they are."""
    text = f"it is deleted once no pod mounts it; these do: {name_pods(users)}"
    ready = state(ConditionType.READY, Reason.IN_USE, text, holds=False)
    others = [each for each in cache.status.conditions if each.type != ConditionType.READY]
    return msgspec.structs.replace(cache.status, conditions=[ready, *others])
