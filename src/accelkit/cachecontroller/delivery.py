"""Interface for delivery modes, which are pure functions of a cache and the state in the API server.

In each pass, `plan` receives the current state and returns the objects to create, patch and delete, and the state of
each namespace. Then the controller applies the plan. Each change to a watched object starts another pass, which reads
the result. A plan must depend only on the state that `plan` receives, because the controller may restart at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from accelkit.cachecontroller.cluster_view import SECRETS, ClaimPod, ClusterView, Kind, ObjectName, ObservedObject
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_SELECTOR

# Label selector for the objects of caches; `gkm.names.build_labels` sets the labels.
SELECTOR: Final = f"{PART_OF_SELECTOR},{COMPONENT_LABEL}=kernel-cache"


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch for one kind of object that a delivery mode requires.

    Attributes:
        kind: kind of the watched objects.
        selector: label selector; empty for all objects of the kind.
        optional: whether the delivery mode works even if the API server does not serve the kind.
        fields: field selector; empty for all objects.
        namespace: namespace of the objects; empty for all namespaces, which requires cluster-wide permissions.
        bookmarks: whether API servers send bookmarks for the kind. They do not send bookmarks for Events.
    """

    kind: Kind
    selector: str = SELECTOR
    optional: bool = False
    fields: str = ""
    namespace: str = ""
    bookmarks: bool = True


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge patch for an object. If `uid` is set, the patch applies only to the object with this UID."""

    name: ObjectName
    body: Mapping[str, Any]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletion of the object with this UID. Its dependents are deleted in the background."""

    name: ObjectName
    uid: str


@dataclass(frozen=True, slots=True)
class SecretCopy:
    """Copy of a pull secret for the controller's pods in another namespace. It is deleted when their owner is deleted.

    If the secret cannot be copied, an error is recorded for the copy.

    Attributes:
        source: namespace and name of the secret.
        target: namespace and name of the copy; an existing Secret is not changed.
        owner: Job or DaemonSet of the pods.
        owner_uid: UID of the owner.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    owner: ObjectName
    owner_uid: str

    @property
    def name(self) -> ObjectName:
        """Name of the copy."""
        return ObjectName(SECRETS, self.target[1], self.target[0])


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """Next changes for a cache, and the current state of the cache.

    Attributes:
        create: complete manifests in order, with apiVersion, kind and namespace. If an object with the name exists, the
            next pass receives it as an observed object if `owns` returns True. Otherwise, the next pass receives the
            error ClaimExists.
        patch: patches of observed objects.
        delete: deletions of observed objects.
        states: claim names, owner and conditions (at least Ready), keyed by workload namespace.
        wake_after: seconds until the next pass if no object changes; 0 if no pass is needed.
        copies: pull secrets that the controller's pods wait for.
    """

    create: tuple[tuple[ObjectName, Mapping[str, Any]], ...] = ()
    patch: tuple[Patch, ...] = ()
    delete: tuple[Deletion, ...] = ()
    states: Mapping[str, PvcStatus] = field(default_factory=dict)
    wake_after: float = 0.0
    copies: tuple[SecretCopy, ...] = ()


class DeliveryMode(Protocol):
    """Delivery mode, which implements one method to deliver caches to pods."""

    @property
    def watches(self) -> tuple[Watch, ...]:
        """Kinds to watch in addition to claims, volumes, namespaces, pods and node reports."""

    def plan(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the next changes for a verified cache.

        Args:
            cache: cache that is not being deleted. Its status contains the decisions of this pass: a verified
                `resolved_digest`, `mount_path`, `cache_bytes` and `previous_digests`.
            cluster: current state. The plan must contain a state for each existing namespace in `cache.namespaces`;
                the controller adds the states of missing namespaces.
        """

    def plan_removal(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the deletions of all objects that this mode created for a cache. The states in the plan are ignored.

        The controller also calls this method for the modes that a cache does not use, so that no objects of a previous
        `delivery` remain.
        """

    def list_users(self, cache: Cache, cluster: ClusterView) -> Mapping[str, Collection[ClaimPod]]:
        """Return the pods that use files of a cache through this mode, keyed by digest.

        The result does not include pods that node reports contain.
        """

    def owns(self, cache: Cache, name: ObjectName, observed: ObservedObject) -> bool:
        """Return whether this mode created an object for a cache. Labels are not trusted: tenants can write them."""


@dataclass(frozen=True, slots=True)
class FillSettings:
    """Settings for the Jobs and DaemonSets that the controller creates.

    Attributes:
        image: accelkit image, with its digest if configured.
        namespace: accelkit's own namespace.
        service_account: ServiceAccount of Jobs; empty for the default ServiceAccount of the namespace, without a token.
        registry_arguments: arguments `--mirror` and `--plain-http` of `accelkit cache …`.
        trusted_root: content of the trusted root (JSON); None for the trusted root of the release.
        registry_ca: CA certificates of registries (PEM); None for the certificates of the operating system.
    """

    image: str
    namespace: str
    service_account: str = ""
    registry_arguments: tuple[str, ...] = ()
    trusted_root: bytes | None = None
    registry_ca: bytes | None = None
