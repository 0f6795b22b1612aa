"""What the API server shows to those who decide about a cache; whoever may write there may have written anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

import msgspec

from accelkit.gkm.objects import Cache, CacheNode
from accelkit.model.keys import CACHE_KEY_PREFIX
from accelkit.model.object_meta import ObjectIdentity

# How long it is remembered that an object could not be written; until then it is not tried again.
REFUSAL_SECONDS: Final = 60.0
# When a cache that waits for that is looked at again: nothing else would tell that the way is free.
AFTER_REFUSAL_SECONDS: Final = REFUSAL_SECONDS + 1.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects: `batch/v1`, `Job`, `jobs`."""

    api_version: str
    kind: str
    plural: str


CLAIMS: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES: Final = Kind("v1", "PersistentVolume", "persistentvolumes")
JOBS: Final = Kind("batch/v1", "Job", "jobs")
SECRETS: Final = Kind("v1", "Secret", "secrets")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Which object; `namespace` is empty for those of the cluster."""

    kind: Kind
    name: str
    namespace: str = ""


# What tenants may write into claims is not decoded, or not kept: a claim with our labels may have a megabyte of others.
_OUR_ANNOTATIONS: Final = (
    CACHE_KEY_PREFIX,
    "pv.kubernetes.io/provisioned-by",
    "storageclass.kubernetes.io/is-default-class",
)
_MOST_ANNOTATION: Final = 4096
SeenLabels = TypedDict(
    "SeenLabels",
    {
        "app.kubernetes.io/part-of": str,
        "app.kubernetes.io/component": str,
        "cache.accelkit.io/name": str,
        "cache.accelkit.io/scope": str,
        "cache.accelkit.io/digest": str,
        "batch.kubernetes.io/job-name": str,
    },
    total=False,
)


class ClaimReference(TypedDict, total=False):
    """Which object, most often a claim."""

    kind: str
    namespace: str
    name: str
    uid: str


class _HostPath(TypedDict, total=False):
    path: str


class _Present(TypedDict):
    """Something of which nothing is read."""


# spec of an object that was seen: what is read of claims, of volumes and, `template` alone, of DaemonSets.
SeenSpec = TypedDict(  # noqa: UP013 - its fields are read by their texts, and as attributes nobody would use them
    "SeenSpec",
    {
        "volumeName": str,
        "storageClassName": str,
        "accessModes": list[str],
        "capacity": dict[str, str],
        "claimRef": ClaimReference | None,
        "hostPath": _HostPath | None,
        "csi": _Present | None,
        "template": dict[str, Any],
    },
    total=False,
)


class OwnerReference(msgspec.Struct):
    """An owner of an object, of which only its being there counts."""


class ObservedMetadata(ObjectIdentity, rename="camel", omit_defaults=True):
    """metadata of an object that was seen."""

    labels: SeenLabels | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None

    def __post_init__(self) -> None:
        """Keep what is read."""
        if self.annotations:
            self.annotations = {
                key: value
                for key, value in self.annotations.items()
                if key.startswith(_OUR_ANNOTATIONS) and len(value) <= _MOST_ANNOTATION
            }
        if self.owner_references:
            del self.owner_references[1:]


class ObservedObject(msgspec.Struct, omit_defaults=True):
    """An object as the API server shows it; whoever may write there may have written anything into it."""

    metadata: ObservedMetadata
    spec: SeenSpec = {}
    status: dict[str, Any] = {}
    # Of a StorageClass.
    provisioner: str = ""
    # Of a VolumeSnapshotClass.
    driver: str = ""
    # Of an Event.
    reason: str = ""
    message: str = ""
    involved_object: ClaimReference = msgspec.field(name="involvedObject", default_factory=ClaimReference)


class _NameMeta(ObjectIdentity, rename="camel"):
    deletion_timestamp: str | None = None


class NamedObject(msgspec.Struct):
    """A Namespace, of which only its being there counts."""

    metadata: _NameMeta


_HostLabels = TypedDict("_HostLabels", {"kubernetes.io/hostname": str}, total=False)


class _NodeMeta(ObjectIdentity, rename="camel"):
    labels: _HostLabels | None = None


class ObservedNode(msgspec.Struct):
    """A Node, of which only its names count."""

    metadata: _NodeMeta

    @property
    def host(self) -> str:
        """The value of its label kubernetes.io/hostname, by which pods prefer it."""
        return (self.metadata.labels or {}).get("kubernetes.io/hostname", self.metadata.name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object could not be written when that was last tried.

    Attributes:
        reason: ClaimExists where an object that is not ours has the name, else that of the API server (Forbidden…).
        message: a sentence.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ClaimPod:
    """A pod that mounts claims, or image volumes, and has not ended.

    Attributes:
        namespace: of the pod and its claims.
        name: of the pod.
        claims: names of those that its volumes are of, generic ephemeral ones included.
        writable: those of them that it mounts so, or might.
        images: references of its image volumes.
        node: empty where it waits for one.
        leaving: whether it is being deleted.
        exit_codes: with which its containers have ended so far, as far as is known.
    """

    namespace: str
    name: str
    claims: frozenset[str] = frozenset()
    writable: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    node: str = ""
    leaving: bool = False
    exit_codes: frozenset[int] = frozenset()


class ClusterView(Protocol):
    """What the API server shows, of one moment."""

    @property
    def now(self) -> float:
        """Seconds since 1970."""

    @property
    def namespaces(self) -> Mapping[str, bool]:
        """The namespaces that exist, and whether each is being deleted."""

    def find(self, name: ObjectName) -> ObservedObject | None:
        """Return an object of a watched kind; None where it is not there, or does not carry the watch's labels."""

    def list_of_cache(self, kind: Kind, key: str) -> list[tuple[ObjectName, ObservedObject]]:
        """Return the watched objects whose annotation has the key of a cache; tenants may copy it."""

    def list_all(self, kind: Kind) -> list[tuple[ObjectName, ObservedObject]]:
        """Return all objects of a watched kind that match its selector."""

    def find_refusal(self, name: ObjectName) -> Refusal | None:
        """Return why an object could not be written when that was last tried, within `REFUSAL_SECONDS`."""

    def list_pods(self, namespace: str) -> list[ClaimPod]:
        """Return the pods of a namespace that mount claims or images and have not ended."""

    def list_reports(self, cache: Cache) -> list[CacheNode]:
        """Return what nodes report of the caches of its namespace, or of the cluster's."""

    @property
    def policies(self) -> Mapping[str, dict[str, Any]]:
        """What each SignerPolicy of the cluster says, its `spec`, by its name."""
