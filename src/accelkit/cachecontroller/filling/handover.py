"""Handover of filled volumes to workload namespaces, and discovery of volumes that were handed over.

As with volume populators, a volume is handed over by changing its `claimRef`. Tenants cannot write PersistentVolumes,
so the annotations of a volume and the UID in its claimRef determine the content of a claim; the claim itself is not
trusted. A volume has one claim. The claim has the cache's name, or the pinned name while a previous digest uses the
cache's name. If pods wait for the other name and no pod uses the current name, the volume moves to a claim with the
other name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.delivery import Patch
from accelkit.cachecontroller.filling.manifests import write_claim
from accelkit.cachecontroller.filling.objects import (
    Filled,
    Target,
    Waiting,
    Work,
    is_dynamic,
    is_gone,
    read_annotation,
    read_claim_name,
    read_claim_ref,
    read_volume_name,
    waiting_for,
)
from accelkit.gkm import names
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache
from accelkit.model.keys import (
    CACHE_DIGEST_ANNOTATION,
    CACHE_FILLED_ANNOTATION,
    CACHE_KEY_ANNOTATION,
    CACHE_NAMESPACE_ANNOTATION,
    CACHE_VOLUME_ANNOTATION,
)

_LOST: Final = "Lost"
_TOUCH_SECONDS: Final = 2.0
_UNBOUND: Final = frozenset({None, "", "Pending"})


@dataclass(frozen=True, slots=True)
class Given:
    """Filled volume, after its handover to a workload namespace.

    Attributes:
        volume: name of the volume.
        observed: PersistentVolume on the API server.
        claim: name of the claim.
        held: claim with the UID in the claimRef; None if this claim no longer exists.
    """

    volume: ObjectName
    observed: ObservedObject
    claim: ObjectName
    held: ObservedObject | None

    @property
    def digest(self) -> str:
        """Digest of the cache in the volume."""
        return read_annotation(self.observed, CACHE_DIGEST_ANNOTATION)

    @property
    def namespace(self) -> str:
        """Workload namespace of the volume."""
        return read_annotation(self.observed, CACHE_NAMESPACE_ANNOTATION)

    @property
    def bound(self) -> bool:
        """Whether pods can mount the volume."""
        return self.held is not None and self.held.status.get("phase") == "Bound"

    @property
    def leaving(self) -> bool:
        """Whether the claim is missing or being deleted, so that new pods cannot mount the volume."""
        return self.held is None or self.held.metadata.deletion_timestamp is not None

    def holds(self, target: Target) -> bool:
        """Return whether the volume contains the files of a target."""
        return (self.namespace, self.digest, read_annotation(self.observed, CACHE_FILLED_ANNOTATION)) == (
            target.namespace,
            target.digest,
            target.mount_path,
        )


def list_given(cache: Cache, cluster: ClusterView) -> list[Given]:
    """Return the usable volumes of a cache that were handed over."""
    found = []
    for name, observed in cluster.list_of_cache(VOLUMES, cache.key):
        if read_annotation(observed, CACHE_FILLED_ANNOTATION) and not is_gone(observed):
            claim = read_claim_name(observed)
            held = cluster.find(claim)
            ours = held is not None and held.metadata.uid == read_claim_ref(observed).get("uid")
            found.append(Given(name, observed, claim, held if ours else None))
    return found


def list_users(claim: ObjectName, cluster: ClusterView) -> list[str]:
    """Return the names of the pods that mount a claim."""
    return sorted(pod.name for pod in cluster.list_pods(claim.namespace) if claim.name in pod.claims)


class HandOver:
    """Handover of the volume of one target.

    Args:
        target: target that specifies the content and namespace of the volume.
        given: all volumes of the cache that were handed over.
        cluster: current state.
        work: collector for the changes.
    """

    def __init__(self, target: Target, given: Iterable[Given], cluster: ClusterView, work: Work) -> None:
        self._target = target
        self._given = tuple(given)
        self._cluster = cluster
        self._work = work
        key = target.cache.key
        self._plain = ObjectName(CLAIMS, names.name_claim(key), target.namespace)
        self._pinned = ObjectName(CLAIMS, names.name_pinned_claim(key, target.digest), target.namespace)

    def find_given(self) -> Given | None:
        """Return the handed-over volume with the files of the target; None if no such volume exists."""
        return next((each for each in self._given if each.holds(self._target) and not each.leaving), None)

    def give(self, filled: Filled) -> Waiting:
        """Hand over a filled volume; return the reason why pods cannot mount the volume yet."""
        chosen = self._choose(filled.volume.name)
        return (
            chosen if isinstance(chosen, Waiting) else self._bind(filled.volume, filled.observed, filled.modes, chosen)
        )

    def follow_pods(self, given: Given) -> None:
        """Move a volume to the other claim name if pods wait for the other name and no pod uses the current name."""
        other = self._pinned if given.claim == self._plain else self._plain
        if (
            not list_users(given.claim, self._cluster)
            and list_users(other, self._cluster)
            and self._is_free(other, given)
        ):
            modes = given.observed.spec.get("accessModes")
            self._bind(given.volume, given.observed, tuple(modes) if isinstance(modes, list) else (), other)

    def hurry(self, given: Given) -> None:
        """Touch a claim that is not bound yet although its volume refers to it.

        Kubernetes processes a changed claim immediately, but retries a waiting claim only every 15 seconds.
        """
        if given.held is None or given.held.status.get("phase") not in _UNBOUND:
            return
        touch = f"{given.volume.name} {int(self._cluster.now / _TOUCH_SECONDS)}"
        self._work.wakes.append(_TOUCH_SECONDS)
        if read_annotation(given.held, CACHE_VOLUME_ANNOTATION) != touch:
            body = {"metadata": {"annotations": {CACHE_VOLUME_ANNOTATION: touch}}}
            self._work.patch.append(Patch(given.claim, body, given.held.metadata.uid))

    def disown(self, given: Given) -> None:
        """Remove the owners of a claim, because a pod that owns a claim can mount it as a generic ephemeral volume."""
        if given.held is not None and given.held.metadata.owner_references:
            self._work.patch.append(
                Patch(given.claim, {"metadata": {"ownerReferences": None}}, given.held.metadata.uid)
            )

    def _is_free(self, claim: ObjectName, given: Given) -> bool:
        observed = self._cluster.find(claim)
        if observed is None:
            return self._work.read_refusal(claim, self._cluster) is None
        return read_volume_name(observed) == given.volume.name

    def _choose(self, volume: str) -> ObjectName | Waiting:
        """Choose the claim for a volume without a claim; return its name, or the reason to wait."""
        for name in (self._plain, self._pinned):
            observed = self._cluster.find(name)
            if (
                observed is not None
                and read_volume_name(observed) == volume
                and observed.metadata.deletion_timestamp is None
            ):
                return name
        if not list_users(self._plain, self._cluster) and list_users(self._pinned, self._cluster):
            return self._take(self._pinned)
        former = next((each for each in self._given if each.claim == self._plain and each.held is not None), None)
        if former is None:
            return self._take(self._plain)
        if list_users(self._plain, self._cluster):
            return self._take(self._pinned)
        if former.held is not None:
            self._work.remove(self._plain, former.held)
        return waiting_for(Reason.PENDING, f"claim {self._plain.name} of the previous digest is being deleted")

    def _take(self, claim: ObjectName) -> ObjectName | Waiting:
        if (refusal := self._work.read_refusal(claim, self._cluster)) is not None:
            return Waiting(refusal.reason, f"claim {claim.name}: {refusal.message}")
        observed = self._cluster.find(claim)
        if observed is None:
            return claim
        if (
            observed.status.get("phase") == _LOST
            and read_annotation(observed, CACHE_KEY_ANNOTATION) == self._target.cache.key
        ):
            self._work.remove(claim, observed)
            return waiting_for(Reason.PENDING, f"claim {claim.name} has lost its volume and is being recreated")
        if observed.metadata.deletion_timestamp is not None:
            return waiting_for(Reason.PENDING, f"claim {claim.name} is being deleted")
        message = f"claim {claim.name} exists but does not belong to this cache"
        return waiting_for(Reason.CLAIM_EXISTS, message)

    def _bind(self, volume: ObjectName, observed: ObservedObject, modes: tuple[str, ...], name: ObjectName) -> Waiting:
        claim = self._cluster.find(name)
        if claim is None:
            size = str((observed.spec.get("capacity") or {}).get("storage", "1Mi"))
            storage_class = str(observed.spec.get("storageClassName", ""))
            body = write_claim(
                self._target.mark(name.name, name.namespace), storage_class, modes, size, volume=volume.name
            )
            self._work.create.append((name, body))
        elif read_claim_ref(observed).get("uid") != claim.metadata.uid:
            self._work.patch.append(
                Patch(volume, self._write_gift(observed, modes, name, claim), observed.metadata.uid)
            )
        return waiting_for(Reason.PENDING, f"claim {name.name} is being bound to the filled volume {volume.name}")

    def _write_gift(
        self, observed: ObservedObject, modes: tuple[str, ...], name: ObjectName, claim: ObservedObject
    ) -> dict[str, Any]:
        marked = self._target.mark("", **{CACHE_FILLED_ANNOTATION: self._target.mount_path})
        reference = {
            "apiVersion": "v1",
            "kind": CLAIMS.kind,
            "namespace": name.namespace,
            "name": name.name,
            "uid": claim.metadata.uid,
            "resourceVersion": None,
        }
        spec: dict[str, Any] = {"claimRef": reference, "accessModes": list(modes)}
        if is_dynamic(observed):
            # No other component manages the volume, so it must be deleted with its claim, regardless of its
            # StorageClass.
            spec["persistentVolumeReclaimPolicy"] = "Delete"
        return {"metadata": {"labels": marked["labels"], "annotations": marked["annotations"]}, "spec": spec}
