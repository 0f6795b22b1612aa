"""Interface of delivery modes: pure functions of a cache and the state on the API server.

One pass handles one cache: `plan` receives the current state and returns the objects to create, patch and delete, and
the state of each namespace; then the controller applies the plan. The next pass, which each change of a watched object
starts, reads the result. So a plan must be correct for a controller that only has the state that it received.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from accelkit.cachecontroller.cluster_view import SECRETS, ClaimPod, ClusterView, Kind, ObjectName, ObservedObject
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_SELECTOR

# Label selector of all objects that are created for a cache; `gkm.names.build_labels` sets the labels.
SELECTOR: Final = f"{PART_OF_SELECTOR},{COMPONENT_LABEL}=kernel-cache"


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a delivery mode watches.

    Attributes:
        kind: kind of the objects.
        selector: label selector; empty for all objects of the kind.
        optional: whether it is acceptable that the API server does not serve the kind, which is then not watched.
        fields: field selector; empty for all objects.
        namespace: namespace of the objects; empty for all namespaces, which requires permissions in all of them.
        bookmarks: whether API servers send bookmarks for the kind; they send none for Events.
    """

    kind: Kind
    selector: str = SELECTOR
    optional: bool = False
    fields: str = ""
    namespace: str = ""
    bookmarks: bool = True


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object; if `uid` is set, it applies only to the object with this UID."""

    name: ObjectName
    body: Mapping[str, Any]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletion of the object with this UID; its dependents are deleted in the background."""

    name: ObjectName
    uid: str


@dataclass(frozen=True, slots=True)
class SecretCopy:
    """A pull secret that the controller's pods need in another namespace; it is deleted with their owner.

    If it cannot be copied, a refusal of its target is recorded.

    Attributes:
        source: namespace and name.
        target: namespace and name; an existing Secret is not changed.
        owner: the Job or DaemonSet.
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
    """Next changes for a cache, and its state.

    Attributes:
        create: whole manifests in order, with apiVersion, kind and namespace. If the name exists, the object is read;
            the next pass receives it like any other object if `owns` returns True, otherwise as a refusal ClaimExists.
        patch: patches of observed objects.
        delete: deletions of observed objects.
        states: by workload namespace: names, owner and conditions (at least Ready).
        wake_after: seconds until the next pass if nothing changes; 0 if none is needed.
        copies: pull secrets for which the controller's pods wait.
    """

    create: tuple[tuple[ObjectName, Mapping[str, Any]], ...] = ()
    patch: tuple[Patch, ...] = ()
    delete: tuple[Deletion, ...] = ()
    states: Mapping[str, PvcStatus] = field(default_factory=dict)
    wake_after: float = 0.0
    copies: tuple[SecretCopy, ...] = ()


class DeliveryMode(Protocol):
    """A way in which pods get the files of a cache."""

    @property
    def watches(self) -> tuple[Watch, ...]:
        """Kinds to watch in addition to claims, volumes, namespaces, pods and reports."""

    def plan(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the next changes for a verified cache.

        Args:
            cache: a cache that is not being deleted. Its status contains the decisions of this pass: a verified
                `resolved_digest`, `mount_path`, `cache_bytes` and `previous_digests`.
            cluster: current state. The plan must contain a state for each namespace of `cache.namespaces` that exists;
                the controller adds the others.
        """

    def plan_removal(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the deletions of all objects that this mode created for a cache without users; states are not read.

        The controller also calls this for modes that a cache does not use, so that a changed `delivery` leaves no
        objects behind.
        """

    def list_users(self, cache: Cache, cluster: ClusterView) -> Mapping[str, Collection[ClaimPod]]:
        """Return the pods that have files of a cache through this mode, by digest.

        Pods that nodes report are not included.
        """

    def owns(self, cache: Cache, name: ObjectName, observed: ObservedObject) -> bool:
        """Return whether this mode created an object for a cache; labels that tenants can write do not suffice."""


@dataclass(frozen=True, slots=True)
class FillSettings:
    """Settings of Jobs and DaemonSets.

    Attributes:
        image: accelkit's image, with a digest if there is one.
        namespace: accelkit's own namespace.
        service_account: ServiceAccount of Jobs; empty for the namespace's default, without a token.
        registry_arguments: arguments `--mirror` and `--plain-http` of `accelkit cache …`; files are passed separately.
        trusted_root: content of the trusted root, JSON; None for the one that ships with the release.
        registry_ca: CA certificates of registries in PEM format; None for the system's certificates.
    """

    image: str
    namespace: str
    service_account: str = ""
    registry_arguments: tuple[str, ...] = ()
    trusted_root: bytes | None = None
    registry_ca: bytes | None = None
