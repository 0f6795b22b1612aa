"""Kinds, names and annotations of the objects that fill the volumes of a cache.

A fill only depends on cluster-scoped objects and on objects in accelkit's own namespace, where tenants cannot write. So
claims and Jobs there are trusted, and so are annotations of PersistentVolumes. Objects in a workload namespace are only
trusted if a PersistentVolume confirms them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import (
    AFTER_REFUSAL_SECONDS,
    CLAIMS,
    JOBS,
    VOLUMES,
    ClaimReference,
    ClusterView,
    Kind,
    ObjectName,
    ObservedObject,
    Refusal,
)
from accelkit.cachecontroller.delivery import Deletion, DeliveryPlan, Patch, SecretCopy
from accelkit.gkm import names
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.model.keys import CACHE_DIGEST_ANNOTATION, CACHE_KEY_ANNOTATION, CACHE_NAMESPACE_ANNOTATION

PODS: Final = Kind("v1", "Pod", "pods")
EVENTS: Final = Kind("v1", "Event", "events")
CONFIG_MAPS: Final = Kind("v1", "ConfigMap", "configmaps")
DAEMON_SETS: Final = Kind("apps/v1", "DaemonSet", "daemonsets")
CLASSES: Final = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses")
DRIVERS: Final = Kind("storage.k8s.io/v1", "CSIDriver", "csidrivers")
SNAPSHOTS: Final = Kind("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots")
SNAPSHOT_CLASSES: Final = Kind("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "volumesnapshotclasses")

_DYNAMIC_ANNOTATION: Final = "pv.kubernetes.io/provisioned-by"


@dataclass(frozen=True, slots=True)
class Target:
    """One digest of a cache in one workload namespace."""

    cache: Cache
    namespace: str
    digest: str
    mount_path: str

    @property
    def image(self) -> str:
        """The image, by digest only, because a tag next to a digest has no effect."""
        return f"{parse_reference(self.cache.status.resolved_image or self.cache.spec.image).name}@{self.digest}"

    def name(self, step: str, *facts: str) -> str:
        """Return the name of the object of one step; other facts result in another name."""
        whole = "\n".join((self.cache.key, self.namespace, self.digest, self.mount_path, step, *facts))
        return f"cache-{step}-{names.short_digest(self.digest)}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"

    def mark(self, name: str, namespace: str = "", **annotations: str) -> dict[str, Any]:
        """Return metadata of objects for this target."""
        place = {"namespace": namespace} if namespace else {}
        return {
            "name": name,
            **place,
            "labels": names.build_labels(self.cache.key, self.digest),
            "annotations": {**self.annotations, **annotations},
        }

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations with whole names, because labels may contain hashes."""
        return {
            CACHE_KEY_ANNOTATION: self.cache.key,
            CACHE_DIGEST_ANNOTATION: self.digest,
            CACHE_NAMESPACE_ANNOTATION: self.namespace,
        }


@dataclass(slots=True)
class Work:
    """Collects the changes of a plan.

    Attributes:
        create: same meaning as in `DeliveryPlan`, as for `patch`, `delete` and `copies`.
        keep: names of objects that are still needed; other objects of the cache in accelkit's namespace are deleted.
        wakes: the seconds until each requested pass of the cache.
    """

    create: list[tuple[ObjectName, Mapping[str, Any]]] = field(default_factory=list)
    patch: list[Patch] = field(default_factory=list)
    delete: list[Deletion] = field(default_factory=list)
    copies: list[SecretCopy] = field(default_factory=list)
    keep: set[ObjectName] = field(default_factory=set)
    wakes: list[float] = field(default_factory=list)

    def read_refusal(self, name: ObjectName, cluster: ClusterView) -> Refusal | None:
        """Return why the last attempt to write an object failed, and schedule another pass if it did."""
        refusal = cluster.find_refusal(name)
        if refusal is not None:
            self.wakes.append(AFTER_REFUSAL_SECONDS)
        return refusal

    def copy_secrets(self, copies: Iterable[SecretCopy], cluster: ClusterView) -> Refusal | None:
        """Add copies of pull secrets; return why one of them cannot be copied."""
        self.copies += copies
        return next((refusal for each in copies if (refusal := self.read_refusal(each.name, cluster))), None)

    def remove(self, name: ObjectName, observed: ObservedObject) -> None:
        """Delete an object, at most once."""
        if observed.metadata.deletion_timestamp is None and all(each.name != name for each in self.delete):
            self.delete.append(Deletion(name, observed.metadata.uid))

    def finish(self, states: Mapping[str, PvcStatus]) -> DeliveryPlan:
        """Return the changes as a plan."""
        return DeliveryPlan(
            create=tuple(self.create),
            patch=tuple(self.patch),
            delete=tuple(self.delete),
            states=states,
            wake_after=min(self.wakes, default=0.0),
            copies=tuple(self.copies),
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a volume is not filled yet.

    Attributes:
        reason: reason of the condition.
        message: a sentence.
        job: the Job that fills it, if there is one.
    """

    reason: str
    message: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled volume in accelkit's namespace, and the access modes with which it is handed over."""

    volume: ObjectName
    observed: ObservedObject
    modes: tuple[str, ...]
    job: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Message of a provisioner that does not support a route."""

    message: str


def read_annotation(observed: ObservedObject, name: str) -> str:
    """Return an annotation; empty if it is missing."""
    return (observed.metadata.annotations or {}).get(name, "")


def read_volume_name(claim: ObservedObject) -> str:
    """Return the name of the volume of a claim; empty if it has none yet."""
    name = claim.spec.get("volumeName", "")
    return name if isinstance(name, str) else ""


def read_claim_ref(volume: ObservedObject) -> ClaimReference:
    """Return the claimRef of a volume."""
    return volume.spec.get("claimRef") or ClaimReference()


def read_claim_name(volume: ObservedObject) -> ObjectName:
    """Return the claim of a volume."""
    reference = read_claim_ref(volume)
    return ObjectName(CLAIMS, str(reference.get("name", "")), str(reference.get("namespace", "")))


def fills_elsewhere(namespace: str, observed: ObservedObject) -> bool:
    """Return whether an object only fills a volume for another namespace; its Job does not count as a user."""
    return read_annotation(observed, CACHE_NAMESPACE_ANNOTATION) not in {"", namespace}


def is_dynamic(volume: ObservedObject) -> bool:
    """Return whether a provisioner created the volume, and also deletes it."""
    return bool(read_annotation(volume, _DYNAMIC_ANNOTATION))


def is_gone(volume: ObservedObject) -> bool:
    """Return whether a volume is no longer usable."""
    return volume.metadata.deletion_timestamp is not None or volume.status.get("phase") in {"Released", "Failed"}


def find_volume_name(claim: ObservedObject) -> ObjectName:
    """Return the volume of a claim."""
    return ObjectName(VOLUMES, read_volume_name(claim))


def job_name(namespace: str, name: str) -> ObjectName:
    """Return the name of a Job."""
    return ObjectName(JOBS, name, namespace)


def waiting_for(reason: Reason, message: str, *, job: str = "") -> Waiting:
    """Return why a volume is not filled, with one of accelkit's reasons."""
    return Waiting(reason.value, message, job)


def first(texts: Iterable[str]) -> str:
    """Return the first text that is not empty."""
    return next((each for each in texts if each), "")
