"""Whether a cache that is being deleted can go: not while pods mount one of its claims; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from accelkit.cachecontroller.deciding.node_claims import read_bound_claim
from accelkit.cachecontroller.delivery import CLAIMS, VOLUMES, ClaimPod, DeliveryMode, ObjectName, Shown
from accelkit.cachecontroller.filling.objects import fills_elsewhere
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheStatus

_SHOWN: Final = 5


def find_users(cache: Cache, shown: Shown, modes: Iterable[DeliveryMode]) -> list[ClaimPod]:
    """Return the pods that mount a claim of ours; one that has its name only does not count."""
    ways = tuple(modes)

    def owned(name: ObjectName) -> bool:
        seen = shown.find(name)
        return seen is not None and any(mode.owns(cache, name, seen) for mode in ways)

    claims = {
        name
        for name, seen in shown.list_of_cache(CLAIMS, cache.key)
        if owned(name) and not fills_elsewhere(name.namespace, seen)
    }
    for name, volume in shown.list_of_cache(VOLUMES, cache.key):
        # Labels may be gone from a claim, but the volume that is bound to it tells of it.
        claim, uid = read_bound_claim(volume)
        if uid and owned(name) and not fills_elsewhere(claim.namespace, volume):
            claims.add(claim)
    places = {claim.namespace for claim in claims}
    return [
        pod
        for namespace in sorted(places)
        for pod in shown.list_pods(namespace)
        if any(ObjectName(CLAIMS, claim, namespace) in claims for claim in pod.claims)
    ]


def describe_removal(cache: Cache, users: Sequence[ClaimPod]) -> CacheStatus:
    """Return the status of a cache whose deletion waits for pods; digest and claims stay as they are."""
    listed = ", ".join(f"{pod.namespace}/{pod.name}" for pod in users[:_SHOWN])
    more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
    text = f"it is deleted once no pod mounts it; these do: {listed}{more}"
    ready = state(ConditionType.READY, Reason.IN_USE, text, holds=False)
    others = [each for each in cache.status.conditions if each.type != ConditionType.READY]
    return msgspec.structs.replace(cache.status, conditions=[ready, *others])
