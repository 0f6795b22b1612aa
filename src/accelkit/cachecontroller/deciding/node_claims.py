"""Delivery `node`, which creates claims for folders that the cache agent on each node fills.

The path of a volume is an entry of its namespace, which is the same on all nodes. The volume does not have node
affinity, so one claim serves all nodes. The volume has the type `Directory`, so a pod waits if its node does not have
the files. Only the controller can write the cluster-scoped volumes. Users can write claims, so the cache of a claim is
identified by the immutable volume name instead of the labels.

This module performs no I/O.
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
from accelkit.cachecontroller.deciding.claim_marks import choose_touch, is_overdue, repair_marks
from accelkit.cachecontroller.deciding.volume_manifests import MODES, build_claim, build_volume
from accelkit.cachecontroller.delivery import Deletion, DeliveryPlan, Patch, Watch
from accelkit.gkm import names
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import CACHE_DIGEST_ANNOTATION, CACHE_KEY_ANNOTATION

_OWNER: Final = "Agent"
# Phases of a volume that Kubernetes has not processed yet, and therefore cannot bind to the claim.
_UNKNOWN_PHASES: Final = frozenset({None, "", "Pending"})


@dataclass(frozen=True, slots=True)
class _Pair:
    """Claim and its volume.

    Attributes:
        claim: name of the claim.
        volume: name of the volume.
        path: path of a new volume.
        former_path: path that an earlier release used for the volume; the agents keep this path valid.
        digest: digest of the files; empty if the path is the entry for the current digest of the cache.
    """

    claim: ObjectName
    volume: ObjectName
    path: str
    former_path: str
    digest: str = ""


class NodeClaims:
    """Delivery mode with claims for the files that cache agents extract."""

    watches: tuple[Watch, ...] = ()

    def plan(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the changes for missing, incorrect and extra claims and volumes, and the states of the namespaces."""
        create: list[tuple[ObjectName, Mapping[str, Any]]] = []
        patches: list[Patch] = []
        deletions: list[Deletion] = []
        states: dict[str, PvcStatus] = {}
        wanted, taken = self._leave_taken(cache, _list_pairs(cache, cluster), cluster)
        for pair in taken:
            states.setdefault(pair.claim.namespace, _describe(cache, pair, cluster))
        kept = {each.claim for each in wanted} | {each.volume for each in wanted}
        for pair in wanted:
            made, repaired, dropped = self._bring(cache, pair, cluster)
            create += made
            patches += repaired
            deletions += dropped
            if pair.digest in {"", cache.status.resolved_digest}:
                found = _describe(cache, pair, cluster)
                former = states.setdefault(pair.claim.namespace, found)
                if former.conditions[0].status == "True":
                    # The webhook makes pods mount the pinned claim, so the conditions of the pinned claim apply to the
                    # namespace.
                    states[pair.claim.namespace] = msgspec.structs.replace(former, conditions=found.conditions)
        waits = any(cluster.find_refusal(each) is not None for each in (*kept, *(pair.claim for pair in taken)))
        deletions += self._list_excess(cache, cluster, kept)
        claims = [claim for each in kept if each.kind == CLAIMS and (claim := cluster.find(each)) is not None]
        pauses = [choose_touch(each, cluster)[1] for each in claims if each.status.get("phase") != "Bound"]
        wake_after = min(pauses, default=AFTER_REFUSAL_SECONDS if waits else 0.0)
        return DeliveryPlan(tuple(create), tuple(patches), tuple(deletions), states, wake_after=wake_after)

    def plan_removal(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the deletions of all claims and volumes of a cache."""
        return DeliveryPlan(delete=tuple(self._list_excess(cache, cluster, frozenset())))

    def owns(self, cache: Cache, name: ObjectName, observed: ObservedObject) -> bool:
        """Return whether this mode created a volume or claim for a cache."""
        if name.kind == VOLUMES:
            annotations = observed.metadata.annotations or {}
            # Volumes of other delivery modes can also have a hostPath, if their provisioner uses this volume type.
            ours = name.name.startswith(names.VOLUME_PREFIX)
            return ours and annotations.get(CACHE_KEY_ANNOTATION) == cache.key and "hostPath" in observed.spec
        digest = _find_digest(cache, name, observed)
        if name.kind != CLAIMS or digest is None or observed.spec.get("storageClassName") != "":
            return False
        return bool(observed.spec.get("volumeName") == names.name_volume(cache.key, name.namespace, digest))

    def list_users(self, cache: Cache, cluster: ClusterView) -> Mapping[str, list[ClaimPod]]:
        """Return the pods that mount a pinned claim, keyed by digest. Node reports contain other pods' digests."""
        found = {}
        for digest in filter(None, (cache.status.resolved_digest, *cache.status.previous_digests)):
            claim = names.name_pinned_claim(cache.key, digest)
            found[digest] = [pod for each in cache.namespaces for pod in cluster.list_pods(each) if claim in pod.claims]
        return found

    def _leave_taken(self, cache: Cache, pairs: list[_Pair], cluster: ClusterView) -> tuple[list[_Pair], list[_Pair]]:
        """Return the pairs to create, and the pairs whose claim names are already in use.

        If a name is in use, no pair is created in the namespace, because admission policies then allow writes in the
        whole namespace.
        """
        taken = [pair for pair in pairs if self._is_taken(cache, pair.claim, cluster)]
        places = {pair.claim.namespace for pair in taken}
        return [pair for pair in pairs if pair.claim.namespace not in places], taken

    def _is_taken(self, cache: Cache, claim: ObjectName, cluster: ClusterView) -> bool:
        observed, refusal = cluster.find(claim), cluster.find_refusal(claim)
        if observed is not None:
            return not self.owns(cache, claim, observed)
        return refusal is not None and refusal.reason == Reason.CLAIM_EXISTS

    def _bring(
        self, cache: Cache, pair: _Pair, cluster: ClusterView
    ) -> tuple[list[tuple[ObjectName, Mapping[str, Any]]], list[Patch], list[Deletion]]:
        volume, claim = cluster.find(pair.volume), cluster.find(pair.claim)
        claimed = claim is not None and self.owns(cache, pair.claim, claim)
        if volume is not None and _read_path(volume) not in {pair.path, pair.former_path}:
            # The mount path has changed, but the path of a volume is immutable. Kubernetes protects both objects while
            # pods use them.
            stale = [Deletion(pair.volume, volume.metadata.uid)]
            if claim is not None and claimed:
                stale.append(Deletion(pair.claim, claim.metadata.uid))
            return [], [], _leave_out_deleted(stale, cluster)
        create: list[tuple[ObjectName, Mapping[str, Any]]] = []
        patches: list[Patch] = []
        if claim is None:
            here = cluster.namespaces.get(pair.claim.namespace) is False and _has_fitting_modes(cache)
            made = (pair.claim, build_claim(cache, pair.claim, pair.digest))
            return [made] if here and cluster.find_refusal(pair.claim) is None else [], [], []
        if not claimed or claim.metadata.deletion_timestamp:
            return create, patches, []
        uid = claim.metadata.uid
        if volume is None:
            # Create the volume after the claim and with the UID of the claim, so that it cannot be bound to another
            # claim with this name.
            if cluster.find_refusal(pair.volume) is None:
                create.append((pair.volume, build_volume(cache, pair.claim, pair.path, pair.digest, uid)))
        elif read_bound_claim(volume)[1] != uid:
            # A user deleted the previous claim, so the volume remains Released until its claimRef refers to the new
            # claim.
            body = {"spec": {"claimRef": {"uid": uid, "resourceVersion": None}}}
            patches.append(Patch(pair.volume, body, volume.metadata.uid))
        known = volume is not None and volume.status.get("phase") not in _UNKNOWN_PHASES
        touch = f"{pair.volume.name} {choose_touch(claim, cluster)[0]}" if known and not patches else ""
        if (repaired := repair_marks(cache, pair.claim, pair.digest, claim, touch)) is not None:
            patches.append(repaired)
        return create, patches, []

    def _list_excess(
        self, cache: Cache, cluster: ClusterView, kept: frozenset[ObjectName] | set[ObjectName]
    ) -> list[Deletion]:
        claims, volumes = (
            {
                name: observed
                for name, observed in cluster.list_of_cache(kind, cache.key)
                if name not in kept and self.owns(cache, name, observed) and _may_go(cache, name, observed, cluster)
            }
            for kind in (CLAIMS, VOLUMES)
        )
        uids = {name: observed.metadata.uid for name, observed in claims.items()}
        for volume in volumes.values():
            # A claim that lacks its labels is found through the volume that is bound to it.
            bound, uid = read_bound_claim(volume)
            if uid and not volume.metadata.deletion_timestamp and bound not in kept:
                uids.setdefault(bound, uid)
        uids |= {name: observed.metadata.uid for name, observed in volumes.items()}
        return _leave_out_deleted([Deletion(name, uid) for name, uid in uids.items()], cluster)


def _list_pairs(cache: Cache, cluster: ClusterView) -> list[_Pair]:
    key, status = cache.key, cache.status
    pairs = []
    for namespace in cache.namespaces:
        if namespace not in cluster.namespaces:
            continue
        paths = names.build_volume_path(key, namespace), names.build_link_path(key)
        pairs.append(_pair(key, namespace, names.name_claim(key), paths))
        for digest in dict.fromkeys((status.resolved_digest, *status.previous_digests)):
            claim = names.name_pinned_claim(key, digest)
            path = names.build_volume_path(key, namespace, digest, status.mount_path)
            former_path = names.build_cache_path(digest, status.mount_path)
            if digest != status.resolved_digest:
                # Pods that use a previous digest keep their files, even with a different mount path.
                volume = cluster.find(ObjectName(VOLUMES, names.name_volume(key, namespace, digest)))
                if volume is None:
                    continue
                path = _read_path(volume) or path
            pairs.append(_pair(key, namespace, claim, (path, former_path), digest))
    return pairs


def _pair(key: str, namespace: str, claim: str, paths: tuple[str, str], digest: str = "") -> _Pair:
    volume = names.name_volume(key, namespace, digest)
    return _Pair(ObjectName(CLAIMS, claim, namespace), ObjectName(VOLUMES, volume), *paths, digest)


def _read_path(volume: ObservedObject) -> str:
    return str((volume.spec.get("hostPath") or {}).get("path", ""))


def _describe(cache: Cache, pair: _Pair, cluster: ClusterView) -> PvcStatus:
    """Return the state of the claim that pods mount."""
    claim = cluster.find(pair.claim)
    ready = state(ConditionType.READY, Reason.PENDING, "the claim is being created", holds=False)
    if not _has_fitting_modes(cache):
        text = f"accessModes {', '.join(cache.spec.access_modes)}: delivery node supports only {', '.join(MODES)}"
        ready = state(ConditionType.READY, Reason.ACCESS_MODE_UNSUPPORTED, text, holds=False)
    elif claim is not None:
        ready = _judge_claim(cache, pair, claim, cluster)
    elif (refusal := cluster.find_refusal(pair.claim) or cluster.find_refusal(pair.volume)) is not None:
        ready = state(ConditionType.READY, refusal.reason, refusal.message, holds=False)
    elif cluster.namespaces.get(pair.claim.namespace):
        ready = state(ConditionType.READY, Reason.DELETING, "the namespace is being deleted", holds=False)
    return PvcStatus(pair.volume.name, pair.claim.name, "", _OWNER, [ready])


def _judge_claim(cache: Cache, pair: _Pair, claim: ObservedObject, cluster: ClusterView) -> Condition:
    name = f"{pair.claim.namespace}/{pair.claim.name}"
    if not NodeClaims().owns(cache, pair.claim, claim):
        text = f"claim {name} exists but does not belong to this cache; delete it, or choose another name for the cache"
        return state(ConditionType.READY, Reason.CLAIM_EXISTS, text, holds=False)
    if claim.metadata.deletion_timestamp:
        text = f"claim {name} is being deleted; the controller creates it again when no pod uses it"
        return state(ConditionType.READY, Reason.DELETING, text, holds=False)
    phase = claim.status.get("phase", "")
    if phase == "Bound":
        return state(ConditionType.READY, Reason.READY, holds=True)
    if is_overdue(claim, cluster):
        text = f"claim {name} is not bound to volume {pair.volume.name} after one minute; run kubectl describe on both"
        return state(ConditionType.READY, Reason.NOT_BOUND, text, holds=False)
    return state(ConditionType.READY, Reason.PENDING, f"claim {name} is {phase or 'not bound yet'}", holds=False)


def _find_digest(cache: Cache, name: ObjectName, observed: ObservedObject) -> str | None:
    """Return the digest of a pinned claim; empty for the claim of the current digest."""
    if name.name == names.name_claim(cache.key):
        return ""
    stated = (observed.metadata.annotations or {}).get(CACHE_DIGEST_ANNOTATION, "")
    known = (cache.status.resolved_digest, *cache.status.previous_digests, stated)
    return next((each for each in known if each and names.name_pinned_claim(cache.key, each) == name.name), None)


def read_bound_claim(volume: ObservedObject) -> tuple[ObjectName, str]:
    """Return the claim of a volume and the UID of the claim. The UID is empty if the volume is not bound."""
    reference = volume.spec.get("claimRef") or {}
    name = ObjectName(CLAIMS, str(reference.get("name", "")), str(reference.get("namespace", "")))
    return name, str(reference.get("uid") or "")


def _may_go(cache: Cache, name: ObjectName, observed: ObservedObject, cluster: ClusterView) -> bool:
    """Return whether a claim or volume may be deleted now. A protected claim is not deleted while pods mount it.

    Admission policies protect the claims in the workload namespaces of a cache. In other namespaces, the claim is
    deleted immediately, so that new pods cannot mount it; running pods can still use it.
    """
    claim = name
    if name.kind == VOLUMES:
        claim, uid = read_bound_claim(observed)
        if not uid:
            return True
    # The placeholder of a deleted cache does not have a UID.
    if not cache.metadata.uid or claim.namespace not in cache.namespaces:
        return True
    return not any(claim.name in pod.claims for pod in cluster.list_pods(claim.namespace))


def _leave_out_deleted(deletions: list[Deletion], cluster: ClusterView) -> list[Deletion]:
    def goes(each: Deletion) -> bool:
        observed = cluster.find(each.name)
        return observed is not None and bool(observed.metadata.deletion_timestamp)

    return [each for each in deletions if not goes(each)]


def _has_fitting_modes(cache: Cache) -> bool:
    return set(cache.spec.access_modes) <= set(MODES)
