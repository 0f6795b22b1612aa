"""Pods that must leave a node before its driver is replaced: users of the vendor's cards, the lowest priority first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from accelkit.errors import AssignmentError
from accelkit.model.assignment import decode_assignment
from accelkit.model.card import Card
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import MIRROR_ANNOTATION, Container, PodRef
from accelkit.vendors.profiles import Profile


class _Owner(msgspec.Struct):
    kind: str = ""
    controller: bool = False


class _Meta(ObjectMeta):
    owner_references: list[_Owner] | None = msgspec.field(name="ownerReferences", default=None)


class _Claim(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    resource_claims: list[_Claim] | None = None
    priority: int | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class BoundPod(msgspec.Struct):
    """A pod of the node, with the fields that decide whether it must leave."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """The priority of the pod."""
        return self.spec.priority or 0

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        """Whether its containers have ended permanently."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def comes_back(self) -> bool:
        """Whether its kubelet or its DaemonSet would start it again on this node, despite a cordon."""
        # A pod may name any owner, but only owners with `controller: true` act on it. Static pods are identified by
        # the annotation, because a kubelet deletes a pod with a forged one.
        kinds = {owner.kind for owner in self.metadata.owner_references or () if owner.controller}
        return "DaemonSet" in kinds or MIRROR_ANNOTATION in (self.metadata.annotations or {})

    def list_resources(self) -> set[str]:
        """Return the names of the resources that its containers request, in any amount."""
        containers = (*self.spec.containers, *(self.spec.init_containers or ()))
        return {
            name
            for each in containers
            for table in (each.resources.limits, each.resources.requests)
            for name, amount in (table or {}).items()
            if str(amount) != "0"
        }


class CardUsers:
    """Detector of pods that use cards of a vendor; unknown use counts as use.

    Args:
        vendor: the vendor whose driver is replaced; empty for all.
        cards: the cards of the node; None if they are unknown.
        profiles: the profiles by vendor.
        shared: the resources by which accelkit's dialects share cards, of any vendor.
    """

    def __init__(
        self, vendor: str, cards: Iterable[Card] | None, profiles: Mapping[str, Profile], shared: Collection[str]
    ) -> None:
        self._others = frozenset(card.id for card in cards or () if vendor and card.vendor != vendor)
        self._patterns = [
            pattern
            for name, profile in profiles.items()
            if not vendor or name == vendor
            for pattern in profile.plugin_resources
        ]
        self._shared = frozenset(shared)

    def includes(self, pod: BoundPod) -> bool:
        """Return whether a pod uses such a card, according to its resources, claims and assignment."""
        # A claim does not name the vendor of its device.
        if pod.spec.resource_claims:
            return True
        resources = pod.list_resources()
        if any(fnmatchcase(name, pattern) for name in resources for pattern in self._patterns):
            return True
        return bool(resources & self._shared) and not self._holds_others_alone(pod)

    def _holds_others_alone(self, pod: BoundPod) -> bool:
        text = (pod.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION)
        try:
            assignment = None if text is None else decode_assignment(text)
        except AssignmentError:
            return False
        held = {share.card for shares in assignment.containers.values() for share in shares} if assignment else set()
        return bool(held) and held <= self._others


class Waves(msgspec.Struct, frozen=True):
    """Pods by the order of their evictions.

    Attributes:
        next: those of the lowest priority, sorted by name, including those that are being deleted.
        later: the number of pods after them.
        staying: those that would be started again, so they are not evicted.
    """

    next: tuple[BoundPod, ...]
    later: int
    staying: tuple[BoundPod, ...]


def plan_waves(pods: Sequence[BoundPod], users: CardUsers) -> Waves:
    """Return the next pods to evict. Pods of a higher priority wait until those of a lower priority have ended."""
    using = [pod for pod in pods if not pod.ended and users.includes(pod)]
    staying = tuple(pod for pod in using if pod.comes_back)
    going = sorted((pod for pod in using if not pod.comes_back), key=lambda pod: (pod.priority, str(pod.ref)))
    first = [pod for pod in going if pod.priority == going[0].priority]
    return Waves(tuple(first), len(going) - len(first), staying)
