"""Cluster state for decisions about caches. Values are untrusted, because users can write some objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

import msgspec

from accelkit.gkm.objects import Cache, CacheNode
from accelkit.model.keys import CACHE_KEY_PREFIX
from accelkit.model.object_meta import ObjectIdentity

# Time for which a failed write is recorded and is not retried.
REFUSAL_SECONDS: Final = 60.0
# Delay before the pass that retries a failed write. No event triggers this pass at the end of `REFUSAL_SECONDS`.
AFTER_REFUSAL_SECONDS: Final = REFUSAL_SECONDS + 1.0


@dataclass(frozen=True, slots=True)
class Kind:
    """API version, kind and plural name of objects, for example `batch/v1`, `Job`, `jobs`."""

    api_version: str
    kind: str
    plural: str


CLAIMS: Final = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES: Final = Kind("v1", "PersistentVolume", "persistentvolumes")
JOBS: Final = Kind("batch/v1", "Job", "jobs")
SECRETS: Final = Kind("v1", "Secret", "secrets")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Identity of an object. `namespace` is empty for cluster-scoped objects."""

    kind: Kind
    name: str
    namespace: str = ""


# Other annotations and labels are dropped, because tenants can store a megabyte of such data in a claim.
_OUR_ANNOTATIONS: Final = (
    CACHE_KEY_PREFIX,
    "pv.kubernetes.io/provisioned-by",
    "storageclass.kubernetes.io/is-default-class",
)
_MOST_ANNOTATION: Final = 4096
ObservedLabels = TypedDict(
    "ObservedLabels",
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
    """Reference to an object, usually a claim."""

    kind: str
    namespace: str
    name: str
    uid: str


class _HostPath(TypedDict, total=False):
    path: str


class _Present(TypedDict):
    """Value that may have any content. The content is ignored."""


# Fields of `spec` that the controller reads: `template` from DaemonSets, and the other fields from claims and volumes.
ObservedSpec = TypedDict(  # noqa: UP013 - the fields are read by name, and would be unused class attributes
    "ObservedSpec",
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
    """Owner of an object; its fields are ignored."""


class ObservedMetadata(ObjectIdentity, rename="camel", omit_defaults=True):
    """Metadata of a watched object."""

    labels: ObservedLabels | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None

    def __post_init__(self) -> None:
        """Discard the annotations and owners that the controller does not read."""
        if self.annotations:
            self.annotations = {
                key: value
                for key, value in self.annotations.items()
                if key.startswith(_OUR_ANNOTATIONS) and len(value) <= _MOST_ANNOTATION
            }
        if self.owner_references:
            del self.owner_references[1:]


class ObservedObject(msgspec.Struct, omit_defaults=True):
    """Object from the API server. Its values are untrusted, because users with write access can set them."""

    metadata: ObservedMetadata
    spec: ObservedSpec = {}
    status: dict[str, Any] = {}
    # A field of StorageClasses.
    provisioner: str = ""
    # A field of VolumeSnapshotClasses.
    driver: str = ""
    # Fields of Events.
    reason: str = ""
    message: str = ""
    involved_object: ClaimReference = msgspec.field(name="involvedObject", default_factory=ClaimReference)


class _NameMeta(ObjectIdentity, rename="camel"):
    deletion_timestamp: str | None = None


class NamedObject(msgspec.Struct):
    """Namespace with only its name and its deletion timestamp."""

    metadata: _NameMeta


_HostLabels = TypedDict("_HostLabels", {"kubernetes.io/hostname": str}, total=False)


class _NodeMeta(ObjectIdentity, rename="camel"):
    labels: _HostLabels | None = None


class ObservedNode(msgspec.Struct):
    """Node with only its name and its hostname label."""

    metadata: _NodeMeta

    @property
    def host(self) -> str:
        """Value of the label kubernetes.io/hostname, which node affinity uses; the node name if there is no label."""
        return (self.metadata.labels or {}).get("kubernetes.io/hostname", self.metadata.name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why an object could not be written.

    Attributes:
        reason: ClaimExists if an object with this name has a different owner; otherwise, the reason from the API
            server, for example Forbidden.
        message: message for users.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ClaimPod:
    """Pod that mounts claims or image volumes and has not terminated.

    Attributes:
        namespace: namespace of the pod and its claims.
        name: name of the pod.
        claims: names of the claims of its volumes, including generic ephemeral volumes.
        writable: names of the claims that the pod mounts, or could mount, as writable.
        images: references of its image volumes.
        node: name of its node; empty before the pod is scheduled.
        leaving: whether the pod is being deleted.
        exit_codes: known exit codes of its containers.
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
    """State of the cluster at one point in time."""

    @property
    def now(self) -> float:
        """Seconds since 1970."""

    @property
    def namespaces(self) -> Mapping[str, bool]:
        """For each existing namespace, whether it is being deleted."""

    def find(self, name: ObjectName) -> ObservedObject | None:
        """Return an object of a watched kind; None if it does not exist or does not match the selector of the watch."""

    def list_of_cache(self, kind: Kind, key: str) -> list[tuple[ObjectName, ObservedObject]]:
        """Return the objects of a kind with an annotation that refers to the cache. Tenants can copy the annotation."""

    def list_all(self, kind: Kind) -> list[tuple[ObjectName, ObservedObject]]:
        """Return all objects of a watched kind that match the selector of the watch."""

    def find_refusal(self, name: ObjectName) -> Refusal | None:
        """Return the reason why the last write of an object failed; None after `REFUSAL_SECONDS`."""

    def list_pods(self, namespace: str) -> list[ClaimPod]:
        """Return the pods of a namespace that mount claims or images and have not terminated."""

    def list_reports(self, cache: Cache) -> list[CacheNode]:
        """Return the node reports for the namespace of a cache or, if it has no namespace, for ClusterGKMCaches."""

    @property
    def policies(self) -> Mapping[str, dict[str, Any]]:
        """Specs of the SignerPolicies, keyed by name."""
