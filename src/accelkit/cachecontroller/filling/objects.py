"""Kinds, names and annotations of the objects that are used to fill cache volumes.

The process depends only on cluster-scoped objects and on objects in accelkit's namespace, which tenants cannot write.
Therefore, claims and Jobs in this namespace and annotations of PersistentVolumes are trusted. An object in a workload
namespace is trusted only if a PersistentVolume refers to it.
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
        """Image reference with the digest and without the tag, because a tag next to a digest has no effect."""
        return f"{parse_reference(self.cache.status.resolved_image or self.cache.spec.image).name}@{self.digest}"

    def name(self, step: str, *facts: str) -> str:
        """Return the object name for a step. The name contains a hash of the given facts."""
        whole = "\n".join((self.cache.key, self.namespace, self.digest, self.mount_path, step, *facts))
        return f"cache-{step}-{names.short_digest(self.digest)}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"

    def mark(self, name: str, namespace: str = "", **annotations: str) -> dict[str, Any]:
        """Return the metadata for an object of this target."""
        place = {"namespace": namespace} if namespace else {}
        return {
            "name": name,
            **place,
            "labels": names.build_labels(self.cache.key, self.digest),
            "annotations": {**self.annotations, **annotations},
        }

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations with complete values. Labels may contain only hashes of long names."""
        return {
            CACHE_KEY_ANNOTATION: self.cache.key,
            CACHE_DIGEST_ANNOTATION: self.digest,
            CACHE_NAMESPACE_ANNOTATION: self.namespace,
        }


@dataclass(slots=True)
class Work:
    """Collector for the changes in a plan.

    The attributes `create`, `patch`, `delete` and `copies` have the same meaning as in `DeliveryPlan`.

    Attributes:
        keep: names of objects that are still needed. Other objects of the cache in accelkit's namespace are deleted.
        wakes: delays until the requested passes of the cache, in seconds.
    """

    create: list[tuple[ObjectName, Mapping[str, Any]]] = field(default_factory=list)
    patch: list[Patch] = field(default_factory=list)
    delete: list[Deletion] = field(default_factory=list)
    copies: list[SecretCopy] = field(default_factory=list)
    keep: set[ObjectName] = field(default_factory=set)
    wakes: list[float] = field(default_factory=list)

    def read_refusal(self, name: ObjectName, cluster: ClusterView) -> Refusal | None:
        """Return the reason why an object could not be written, and schedule a pass for the retry."""
        refusal = cluster.find_refusal(name)
        if refusal is not None:
            self.wakes.append(AFTER_REFUSAL_SECONDS)
        return refusal

    def copy_secrets(self, copies: Iterable[SecretCopy], cluster: ClusterView) -> Refusal | None:
        """Add copies of pull secrets. If a secret could not be copied before, return the first recorded error."""
        self.copies += copies
        return next((refusal for each in copies if (refusal := self.read_refusal(each.name, cluster))), None)

    def remove(self, name: ObjectName, observed: ObservedObject) -> None:
        """Add the deletion of an object, unless it is already being deleted."""
        if observed.metadata.deletion_timestamp is None and all(each.name != name for each in self.delete):
            self.delete.append(Deletion(name, observed.metadata.uid))

    def finish(self, states: Mapping[str, PvcStatus]) -> DeliveryPlan:
        """Return the plan with all collected changes."""
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
    """Reason why pods cannot mount a volume yet.

    Attributes:
        reason: reason in the condition.
        message: message for users.
        job: name of the Job that fills the volume; empty if no Job exists.
    """

    reason: str
    message: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """Filled volume in accelkit's namespace, and the access modes that are set during its handover."""

    volume: ObjectName
    observed: ObservedObject
    modes: tuple[str, ...]
    job: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Error message from a provisioner that does not support a route."""

    message: str


def read_annotation(observed: ObservedObject, name: str) -> str:
    """Return the value of an annotation; empty if the annotation is missing."""
    return (observed.metadata.annotations or {}).get(name, "")


def read_volume_name(claim: ObservedObject) -> str:
    """Return the volume name of a claim; empty if the claim does not have a volume yet."""
    name = claim.spec.get("volumeName", "")
    return name if isinstance(name, str) else ""


def read_claim_ref(volume: ObservedObject) -> ClaimReference:
    """Return the claimRef of a volume."""
    return volume.spec.get("claimRef") or ClaimReference()


def read_claim_name(volume: ObservedObject) -> ObjectName:
    """Return the name of the claim to which a volume is bound."""
    reference = read_claim_ref(volume)
    return ObjectName(CLAIMS, str(reference.get("name", "")), str(reference.get("namespace", "")))


def fills_elsewhere(namespace: str, observed: ObservedObject) -> bool:
    """Return whether an object is used to fill a volume for another namespace."""
    return read_annotation(observed, CACHE_NAMESPACE_ANNOTATION) not in {"", namespace}


def is_dynamic(volume: ObservedObject) -> bool:
    """Return whether a provisioner created the volume, and therefore also deletes it."""
    return bool(read_annotation(volume, _DYNAMIC_ANNOTATION))


def is_gone(volume: ObservedObject) -> bool:
    """Return whether a volume can no longer be used."""
    return volume.metadata.deletion_timestamp is not None or volume.status.get("phase") in {"Released", "Failed"}


def find_volume_name(claim: ObservedObject) -> ObjectName:
    """Return the object name of a claim's volume."""
    return ObjectName(VOLUMES, read_volume_name(claim))


def job_name(namespace: str, name: str) -> ObjectName:
    """Return the object name of a Job."""
    return ObjectName(JOBS, name, namespace)


def waiting_for(reason: Reason, message: str, *, job: str = "") -> Waiting:
    """Return a `Waiting` with one of accelkit's reasons."""
    return Waiting(reason.value, message, job)


def first(texts: Iterable[str]) -> str:
    """Return the first non-empty text; empty if all texts are empty."""
    return next((each for each in texts if each), "")
