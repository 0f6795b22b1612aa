"""Claims in workload namespaces, which are found through their bound volumes.

A user with edit permission for a namespace can set any value in its claims, but tenants cannot write volumes.
Therefore, this module does not use the content of claims.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.cachecontroller.cluster_view import VOLUMES, ClaimPod, ClusterView, ObjectName
from accelkit.cachecontroller.deciding.node_claims import read_bound_claim
from accelkit.cachecontroller.delivery import DeliveryMode
from accelkit.cachecontroller.filling.objects import fills_elsewhere
from accelkit.gkm.conditions import ConditionType, Reason, find_condition, state
from accelkit.gkm.objects import Cache, CacheStatus, PvcStatus
from accelkit.texts import list_some

# Phases of volumes whose claim no longer exists.
_UNBOUND_PHASES: Final = frozenset({"Released", "Failed"})


def list_given_claims(cache: Cache, cluster: ClusterView, modes: Iterable[DeliveryMode]) -> list[ObjectName]:
    """Return the claims to which volumes of a cache are bound, regardless of their content and namespace."""
    ways = tuple(modes)
    found = set()
    for name, volume in cluster.list_of_cache(VOLUMES, cache.key):
        claim, uid = read_bound_claim(volume)
        if not uid or volume.status.get("phase") in _UNBOUND_PHASES or fills_elsewhere(claim.namespace, volume):
            continue
        present = cluster.find(claim)
        # The watch does not report a claim without its labels. If the UID differs, another claim has this name.
        taken = present is not None and present.metadata.uid != uid
        if not taken and any(mode.owns(cache, name, volume) for mode in ways):
            found.add(claim)
    return sorted(found, key=str)


def list_pods_of(claims: Iterable[ObjectName], cluster: ClusterView, *, writing: bool = False) -> list[ClaimPod]:
    """Return the pods that mount the claims; if `writing` is set, only the pods that can write to the claims."""
    by_namespace: dict[str, set[str]] = {}
    for claim in claims:
        by_namespace.setdefault(claim.namespace, set()).add(claim.name)
    return [
        pod
        for namespace in sorted(by_namespace)
        for pod in cluster.list_pods(namespace)
        if by_namespace[namespace] & (pod.writable if writing else pod.claims)
    ]


def admit_taken(states: Mapping[str, PvcStatus], given: Iterable[ObjectName]) -> dict[str, PvcStatus]:
    """Return the states; replace ClaimExists with ClaimTaken in namespaces where a claim of the cache still exists.

    Admission policies allow pods in a namespace with ClaimExists to write to the claim, because it contains user data.
    """
    places = {claim.namespace for claim in given}
    states_by_namespace = {}
    for namespace, each in states.items():
        ready = find_condition(each.conditions, ConditionType.READY)
        if ready is not None and ready.reason == Reason.CLAIM_EXISTS and namespace in places:
            text = f"{ready.message}; the claims of this cache in {namespace} are deleted first, when no pod uses them"
            taken = state(ConditionType.READY, Reason.CLAIM_TAKEN, text, holds=False)
            states_by_namespace[namespace] = msgspec.structs.replace(
                each, conditions=[taken if one is ready else one for one in each.conditions]
            )
        else:
            states_by_namespace[namespace] = each
    return states_by_namespace


def admit_writers(status: CacheStatus, given: Iterable[ObjectName], cluster: ClusterView) -> CacheStatus:
    """Return the status. Add Degraded if pods that bypassed the webhook and the policies can write to a claim."""
    writers = list_pods_of(given, cluster, writing=True)
    if not writers:
        return status
    text = f"pods that bypassed the webhook can write to files that other pods read: {name_pods(writers)}; delete them"
    degraded = state(ConditionType.DEGRADED, Reason.WRITABLE_POD, text, holds=True)
    others = [each for each in status.conditions if each.type != ConditionType.DEGRADED]
    return msgspec.structs.replace(status, conditions=[*others, degraded])


def name_pods(pods: Iterable[ClaimPod]) -> str:
    """Return the names of the first pods and the number of further pods, for use in a sentence."""
    return list_some(f"{pod.namespace}/{pod.name}" for pod in pods)
