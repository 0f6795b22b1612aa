"""Delivery node by node: claims on folders that each node's agent fills; pure.

A volume names a path that is the same on all nodes and has no node affinity, so one claim serves all of them; its type
`Directory` has a pod wait whose node has no files yet. Volumes are of the cluster and ours alone; a claim lies where
users may write, so it counts as ours by the volume that it names, which nobody can change, and not by labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.cluster_view import (
    AFTER_REFUSAL_SECONDS,
    CLAIMS,
    VOLUMES,
    ClaimPod,
    ClusterView,
    ObjectName,
    ObservedObject,
)
from accelkit.cachecontroller.deciding.claim_marks import choose_touch, is_overdue, mend_marks
from accelkit.cachecontroller.deciding.volume_manifests import MODES, build_claim, build_volume
from accelkit.cachecontroller.delivery import Deletion, DeliveryPlan, Patch, Watch
from accelkit.gkm import names
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import CACHE_DIGEST_ANNOTATION, CACHE_KEY_ANNOTATION

_OWNER: Final = "Agent"
# Of a volume that Kubernetes has not looked at yet: it would not find it for the claim either.
_UNKNOWN_PHASES: Final = frozenset({None, "", "Pending"})


@dataclass(frozen=True, slots=True)
class _Pair:
    """A claim and its volume; `digest` is empty where the path is the link that follows the cache."""

    claim: ObjectName
    volume: ObjectName
    path: str
    digest: str = ""


class NodeClaims:
    """Claims on what the nodes' agents prepare."""

    watches: tuple[Watch, ...] = ()

    def plan(self, cache: Cache, shown: ClusterView) -> DeliveryPlan:
        """Say which claims and volumes are missing, wrong or in excess, and how each namespace fares."""
        create: list[tuple[ObjectName, Mapping[str, Any]]] = []
        patches: list[Patch] = []
        deletions: list[Deletion] = []
        states: dict[str, PvcStatus] = {}
        wanted, taken = self._leave_taken(cache, _list_pairs(cache, shown), shown)
        for pair in taken:
            states.setdefault(pair.claim.namespace, _describe(cache, pair, shown))
        kept = {each.claim for each in wanted} | {each.volume for each in wanted}
        for pair in wanted:
            made, mended, dropped = self._bring(cache, pair, shown)
            create += made
            patches += mended
            deletions += dropped
            if pair.digest in {"", cache.status.resolved_digest}:
                found = _describe(cache, pair, shown)
                former = states.setdefault(pair.claim.namespace, found)
                if former.conditions[0].status == "True":
                    # Pods that the webhook sees mount the claim of the digest.
                    states[pair.claim.namespace] = msgspec.structs.replace(former, conditions=found.conditions)
        waits = any(shown.find_refusal(each) is not None for each in (*kept, *(pair.claim for pair in taken)))
        deletions += self._list_excess(cache, shown, kept)
        claims = [claim for each in kept if each.kind == CLAIMS and (claim := shown.find(each)) is not None]
        pauses = [choose_touch(each, shown)[1] for each in claims if each.status.get("phase") != "Bound"]
        wake_after = min(pauses, default=AFTER_REFUSAL_SECONDS if waits else 0.0)
        return DeliveryPlan(tuple(create), tuple(patches), tuple(deletions), states, wake_after=wake_after)

    def plan_removal(self, cache: Cache, shown: ClusterView) -> DeliveryPlan:
        """Say which claims and volumes of a cache go."""
        return DeliveryPlan(delete=tuple(self._list_excess(cache, shown, frozenset())))

    def owns(self, cache: Cache, name: ObjectName, seen: ObservedObject) -> bool:
        """Return whether a volume or claim is ours."""
        if name.kind == VOLUMES:
            annotations = seen.metadata.annotations or {}
            # Those that a provisioner made for another way of delivery may be hostPaths too.
            ours = name.name.startswith(names.VOLUME_PREFIX)
            return ours and annotations.get(CACHE_KEY_ANNOTATION) == cache.key and "hostPath" in seen.spec
        digest = _find_digest(cache, name, seen)
        if name.kind != CLAIMS or digest is None or seen.spec.get("storageClassName") != "":
            return False
        return bool(seen.spec.get("volumeName") == names.name_volume(cache.key, name.namespace, digest))

    def list_users(self, cache: Cache, shown: ClusterView) -> Mapping[str, list[ClaimPod]]:
        """Return the pods that mount the claim of a digest; of the claim that follows the cache, nodes say which."""
        found = {}
        for digest in filter(None, (cache.status.resolved_digest, *cache.status.previous_digests)):
            claim = names.name_pinned_claim(cache.key, digest)
            found[digest] = [pod for each in cache.namespaces for pod in shown.list_pods(each) if claim in pod.claims]
        return found

    def _leave_taken(self, cache: Cache, pairs: list[_Pair], shown: ClusterView) -> tuple[list[_Pair], list[_Pair]]:
        """Return the pairs that are made, and those whose names are another's.

        Nothing is made in the namespaces of these: what its users may write to is told by the namespace.
        """
        taken = [pair for pair in pairs if self._is_taken(cache, pair.claim, shown)]
        places = {pair.claim.namespace for pair in taken}
        return [pair for pair in pairs if pair.claim.namespace not in places], taken

    def _is_taken(self, cache: Cache, claim: ObjectName, shown: ClusterView) -> bool:
        seen, refusal = shown.find(claim), shown.find_refusal(claim)
        if seen is not None:
            return not self.owns(cache, claim, seen)
        return refusal is not None and refusal.reason == Reason.CLAIM_EXISTS

    def _bring(
        self, cache: Cache, pair: _Pair, shown: ClusterView
    ) -> tuple[list[tuple[ObjectName, Mapping[str, Any]]], list[Patch], list[Deletion]]:
        volume, claim = shown.find(pair.volume), shown.find(pair.claim)
        claimed = claim is not None and self.owns(cache, pair.claim, claim)
        if volume is not None and (volume.spec.get("hostPath") or {}).get("path") != pair.path:
            # Of a former mount path; a volume's path cannot be changed, and the protection of Kubernetes keeps both
            # until no pod uses them.
            stale = [Deletion(pair.volume, volume.metadata.uid)]
            if claim is not None and claimed:
                stale.append(Deletion(pair.claim, claim.metadata.uid))
            return [], [], _leave_out_going(stale, shown)
        create: list[tuple[ObjectName, Mapping[str, Any]]] = []
        patches: list[Patch] = []
        if claim is None:
            here = shown.namespaces.get(pair.claim.namespace) is False and _has_fitting_modes(cache)
            made = (pair.claim, build_claim(cache, pair.claim, pair.digest))
            return [made] if here and shown.find_refusal(pair.claim) is None else [], [], []
        if not claimed or claim.metadata.deletion_timestamp:
            return create, patches, []
        uid = claim.metadata.uid
        if volume is None:
            # Not before the claim is known to be ours, and for that very one: a claim of the name that is not ours
            # would be bound to the volume.
            if shown.find_refusal(pair.volume) is None:
                create.append((pair.volume, build_volume(cache, pair.claim, pair.path, pair.digest, uid)))
        elif read_bound_claim(volume)[1] != uid:
            # Somebody deleted the former claim: its volume waits for people, unless it is said who may have it.
            body = {"spec": {"claimRef": {"uid": uid, "resourceVersion": None}}}
            patches.append(Patch(pair.volume, body, volume.metadata.uid))
        known = volume is not None and volume.status.get("phase") not in _UNKNOWN_PHASES
        touch = f"{pair.volume.name} {choose_touch(claim, shown)[0]}" if known and not patches else ""
        if (mended := mend_marks(cache, pair.claim, pair.digest, claim, touch)) is not None:
            patches.append(mended)
        return create, patches, []

    def _list_excess(
        self, cache: Cache, shown: ClusterView, kept: frozenset[ObjectName] | set[ObjectName]
    ) -> list[Deletion]:
        claims, volumes = (
            {
                name: seen
                for name, seen in shown.list_of_cache(kind, cache.key)
                if name not in kept and self.owns(cache, name, seen) and _may_go(cache, name, seen, shown)
            }
            for kind in (CLAIMS, VOLUMES)
        )
        uids = {name: seen.metadata.uid for name, seen in claims.items()}
        for volume in volumes.values():
            # Labels may be gone from a claim, but the volume that is bound to it tells of it.
            bound, uid = read_bound_claim(volume)
            if uid and not volume.metadata.deletion_timestamp and bound not in kept:
                uids.setdefault(bound, uid)
        uids |= {name: seen.metadata.uid for name, seen in volumes.items()}
        return _leave_out_going([Deletion(name, uid) for name, uid in uids.items()], shown)


def _list_pairs(cache: Cache, shown: ClusterView) -> list[_Pair]:
    key, status = cache.key, cache.status
    pairs = []
    for namespace in cache.namespaces:
        if namespace not in shown.namespaces:
            continue
        pairs.append(_pair(key, namespace, names.name_claim(key), names.build_link_path(key)))
        for digest in dict.fromkeys((status.resolved_digest, *status.previous_digests)):
            claim = names.name_pinned_claim(key, digest)
            path = names.build_cache_path(digest, status.mount_path)
            if digest != status.resolved_digest:
                # What pods of a former digest have stays as it is, also where the mount path was another.
                volume = shown.find(ObjectName(VOLUMES, names.name_volume(key, namespace, digest)))
                if volume is None:
                    continue
                path = str((volume.spec.get("hostPath") or {}).get("path", path))
            pairs.append(_pair(key, namespace, claim, path, digest))
    return pairs


def _pair(key: str, namespace: str, claim: str, path: str, digest: str = "") -> _Pair:
    volume = names.name_volume(key, namespace, digest)
    return _Pair(ObjectName(CLAIMS, claim, namespace), ObjectName(VOLUMES, volume), path, digest)


def _describe(cache: Cache, pair: _Pair, shown: ClusterView) -> PvcStatus:
    """Return how the claim that users mount fares."""
    claim = shown.find(pair.claim)
    ready = state(ConditionType.READY, Reason.PENDING, "the claim is being made", holds=False)
    if not _has_fitting_modes(cache):
        text = f"{', '.join(cache.spec.access_modes)} is not among {', '.join(MODES)}, which claims on nodes can have"
        ready = state(ConditionType.READY, Reason.ACCESS_MODE_UNSUPPORTED, text, holds=False)
    elif claim is not None:
        ready = _judge_claim(cache, pair, claim, shown)
    elif (refusal := shown.find_refusal(pair.claim) or shown.find_refusal(pair.volume)) is not None:
        ready = state(ConditionType.READY, refusal.reason, refusal.message, holds=False)
    elif shown.namespaces.get(pair.claim.namespace):
        ready = state(ConditionType.READY, Reason.DELETING, "the namespace is being deleted", holds=False)
    return PvcStatus(pair.volume.name, pair.claim.name, "", _OWNER, [ready])


def _judge_claim(cache: Cache, pair: _Pair, claim: ObservedObject, shown: ClusterView) -> Condition:
    name = f"{pair.claim.namespace}/{pair.claim.name}"
    if not NodeClaims().owns(cache, pair.claim, claim):
        text = f"claim {name} is there and is not ours; it is not touched: delete it, or name the cache otherwise"
        return state(ConditionType.READY, Reason.CLAIM_EXISTS, text, holds=False)
    if claim.metadata.deletion_timestamp:
        text = f"claim {name} was deleted, and is made anew once no pod uses it"
        return state(ConditionType.READY, Reason.DELETING, text, holds=False)
    phase = claim.status.get("phase", "")
    if phase == "Bound":
        return state(ConditionType.READY, Reason.READY, holds=True)
    if is_overdue(claim, shown):
        text = f"claim {name} waits for its volume {pair.volume.name} for more than a minute; kubectl describe both"
        return state(ConditionType.READY, Reason.NOT_BOUND, text, holds=False)
    return state(ConditionType.READY, Reason.PENDING, f"claim {name} is {phase or 'not bound yet'}", holds=False)


def _find_digest(cache: Cache, name: ObjectName, seen: ObservedObject) -> str | None:
    """Return the digest to which a claim is pinned by its name; empty for the one that follows the cache."""
    if name.name == names.name_claim(cache.key):
        return ""
    stated = (seen.metadata.annotations or {}).get(CACHE_DIGEST_ANNOTATION, "")
    known = (cache.status.resolved_digest, *cache.status.previous_digests, stated)
    return next((each for each in known if each and names.name_pinned_claim(cache.key, each) == name.name), None)


def read_bound_claim(volume: ObservedObject) -> tuple[ObjectName, str]:
    """Return which claim a volume is for, and the UID of the one that it is bound to; empty where it is not bound."""
    reference = volume.spec.get("claimRef") or {}
    name = ObjectName(CLAIMS, str(reference.get("name", "")), str(reference.get("namespace", "")))
    return name, str(reference.get("uid") or "")


def _may_go(cache: Cache, name: ObjectName, seen: ObservedObject, shown: ClusterView) -> bool:
    """Return whether a claim or volume may be deleted now: where policies guard it, not while pods mount it.

    They know it by a cache that names its namespace. Without one, new pods must not have it; those that run keep it.
    """
    claim = name
    if name.kind == VOLUMES:
        claim, uid = read_bound_claim(seen)
        if not uid:
            return True
    # What stands for a cache that is gone has no UID.
    if not cache.metadata.uid or claim.namespace not in cache.namespaces:
        return True
    return not any(claim.name in pod.claims for pod in shown.list_pods(claim.namespace))


def _leave_out_going(deletions: list[Deletion], shown: ClusterView) -> list[Deletion]:
    def goes(each: Deletion) -> bool:
        seen = shown.find(each.name)
        return seen is not None and bool(seen.metadata.deletion_timestamp)

    return [each for each in deletions if not goes(each)]


def _has_fitting_modes(cache: Cache) -> bool:
    return set(cache.spec.access_modes) <= set(MODES)
