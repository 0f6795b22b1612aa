"""What a way of delivery is asked, and what it answers: pure functions of a cache and what the API server shows.

One pass goes over one cache: the controller shows what is there, `plan` says what to create, patch and delete and how
each namespace fares, and the controller carries that out. Whatever comes of it is seen in the next pass, which each
change of a watched object begins; so an answer has to be right for a controller that knows only what it is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from accelkit.cachecontroller.cluster_view import SECRETS, ClaimPod, ClusterView, Kind, ObjectName, ObservedObject
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_SELECTOR

# Of whatever is made for a cache; `gkm.names.build_labels` puts it there.
SELECTOR: Final = f"{PART_OF_SELECTOR},{COMPONENT_LABEL}=kernel-cache"


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a way of delivery wants to see.

    Attributes:
        kind: of the objects.
        selector: of labels; empty for all objects of the kind.
        optional: whether the API server may not know the kind; then it is not watched.
        fields: selector of fields; empty for all objects.
        namespace: of the objects; empty for all of the cluster, which takes rights in all of it.
        bookmarks: whether API servers tell watches of the kind that nothing changes; of Events they do not.
    """

    kind: Kind
    selector: str = SELECTOR
    optional: bool = False
    fields: str = ""
    namespace: str = ""
    bookmarks: bool = True


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object; with `uid`, of that very one."""

    name: ObjectName
    body: Mapping[str, Any]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object to be deleted, if it still is that of the UID; what depends on it goes in the background."""

    name: ObjectName
    uid: str


@dataclass(frozen=True, slots=True)
class SecretCopy:
    """A pull secret that pods of ours need in another namespace; it goes with what they belong to.

    Where it cannot be copied, that is remembered as a refusal of its target.

    Attributes:
        source: namespace and name.
        target: namespace and name; what is there already is left as it is.
        owner: the Job or DaemonSet.
        owner_uid: of it.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    owner: ObjectName
    owner_uid: str

    @property
    def name(self) -> ObjectName:
        """Of the copy."""
        return ObjectName(SECRETS, self.target[1], self.target[0])


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """What a cache needs next, and how it fares.

    Attributes:
        create: whole manifests, in order, with apiVersion, kind and namespace. Where the name is taken, the object is
            read, and shown in the next pass as any other if `owns` it, else as a refusal ClaimExists.
        patch: of objects that were seen.
        delete: of objects that were seen.
        states: by workload namespace: names, owner and conditions (Ready at least).
        wake_after: seconds after which the cache is to be looked at again though nothing changes; 0 for never.
        copies: of pull secrets, which pods of ours wait for.
    """

    create: tuple[tuple[ObjectName, Mapping[str, Any]], ...] = ()
    patch: tuple[Patch, ...] = ()
    delete: tuple[Deletion, ...] = ()
    states: Mapping[str, PvcStatus] = field(default_factory=dict)
    wake_after: float = 0.0
    copies: tuple[SecretCopy, ...] = ()


class DeliveryMode(Protocol):
    """A way in which the files of a cache come to pods."""

    @property
    def watches(self) -> tuple[Watch, ...]:
        """What it wants to be shown beside claims, volumes, namespaces, pods and reports."""

    def plan(self, cache: Cache, shown: ClusterView) -> DeliveryPlan:
        """Say what a verified cache needs next.

        Args:
            cache: its status holds what was decided in this pass: a verified `resolved_digest`, `mount_path`,
                `cache_bytes` and `previous_digests`. It is not being deleted.
            shown: what is there. States are expected for each of `cache.namespaces`; of one that does not exist, the
                controller says so itself.
        """

    def plan_removal(self, cache: Cache, shown: ClusterView) -> DeliveryPlan:
        """Say what to delete of all that this way made for a cache, which no pod uses any more; states are not read.

        It is also asked of each way that a cache does not use, so that a changed `delivery` leaves nothing.
        """

    def list_users(self, cache: Cache, shown: ClusterView) -> Mapping[str, Collection[ClaimPod]]:
        """Return the pods that have files of a cache in this way, by the digest that they have.

        What nodes report of their pods beside these is not said here.
        """

    def owns(self, cache: Cache, name: ObjectName, seen: ObservedObject) -> bool:
        """Return whether an object is one that this way made for a cache, by more than labels where they can lie."""


@dataclass(frozen=True, slots=True)
class FillSettings:
    """What the Jobs of a delivery run with.

    Attributes:
        image: of accelkit, with digest where there is one.
        namespace: accelkit's own.
        service_account: of Jobs; empty for none (the namespace's default, without a token).
        registry_arguments: of `accelkit cache …`: `--mirror`, `--plain-http`; files cannot be passed so.
        trusted_root: content of the trusted root, JSON; None for the one that comes with the release.
        registry_ca: PEM of authorities of registries; None for those of the system.
    """

    image: str
    namespace: str
    service_account: str = ""
    registry_arguments: tuple[str, ...] = ()
    trusted_root: bytes | None = None
    registry_ca: bytes | None = None
