"""Grants in a plan, which are the changes that allow pods to mount a claim.

Pods can mount a claim when a volume contains its UID. Therefore, three kinds of changes are grants: creating the claim,
creating its volume, and setting the `claimRef` of an existing volume.

This module performs no I/O.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ClusterView, ObjectName
from accelkit.cachecontroller.delivery import DeliveryPlan, Patch
from accelkit.gkm import names
from accelkit.gkm.conditions import Condition, ConditionType
from accelkit.gkm.objects import Cache, PvcStatus


def list_grants(cache: Cache, plan: DeliveryPlan, cluster: ClusterView) -> dict[ObjectName, ObjectName]:
    """Return the objects in a plan that allow pods to mount claims, and the claim of each object.

    Claims in accelkit's namespace, which are only filled there, are omitted, because users' pods cannot mount them.
    """
    found = {name: name for name, _ in plan.create if name.kind == CLAIMS}
    found |= {name: _read_claim(manifest) for name, manifest in plan.create if name.kind == VOLUMES}
    for patch in plan.patch:
        if gives(patch):
            present = cluster.find(patch.name)
            former = present.spec.get("claimRef") or {} if present is not None else {}
            body = {"spec": {"claimRef": {**former, **patch.body["spec"]["claimRef"]}}}
            found[patch.name] = _read_claim(body)
    of_users = list_claim_names(cache)
    return {name: claim for name, claim in found.items() if claim.name in of_users}


def list_claim_names(cache: Cache) -> set[str]:
    """Return the names of the claims that pods mount for a cache."""
    digests = (cache.status.resolved_digest, *cache.status.previous_digests)
    pinned = {names.name_pinned_claim(cache.key, each) for each in digests if each}
    return {names.name_claim(cache.key), *pinned}


def gives(patch: Patch) -> bool:
    """Return whether a patch sets the `claimRef` of a volume."""
    return patch.name.kind == VOLUMES and bool((patch.body.get("spec") or {}).get("claimRef"))


def withhold(plan: DeliveryPlan, withheld: Collection[ObjectName]) -> DeliveryPlan:
    """Return a copy of the plan without the withheld grants."""
    return dataclasses.replace(
        plan,
        create=tuple(each for each in plan.create if each[0] not in withheld),
        patch=tuple(each for each in plan.patch if not (gives(each) and each.name in withheld)),
    )


def set_ready(plan: DeliveryPlan, ready: Mapping[str, Condition]) -> DeliveryPlan:
    """Return a copy of the plan in which the namespaces have the given Ready conditions."""
    states = dict(plan.states)
    for namespace, condition in ready.items():
        former = states.get(namespace, PvcStatus())
        others = [each for each in former.conditions if each.type != ConditionType.READY]
        states[namespace] = msgspec.structs.replace(former, conditions=[condition, *others])
    return dataclasses.replace(plan, states=states)


def _read_claim(volume: Mapping[str, Any]) -> ObjectName:
    reference = (volume.get("spec") or {}).get("claimRef") or {}
    return ObjectName(CLAIMS, str(reference.get("name", "")), str(reference.get("namespace", "")))
