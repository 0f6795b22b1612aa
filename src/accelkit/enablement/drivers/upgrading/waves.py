"""Who has to leave a node before its driver goes: pods that use the vendor's cards, the lowest priority first."""

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
    """A pod of the node, with what decides whether it has to leave."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """As admission wrote it."""
        return self.spec.priority or 0

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def comes_back(self) -> bool:
        """Whether its kubelet or its DaemonSet would start it on this node again, cordoned or not."""
        # Whoever writes a pod may name any owner; only of those that they control do controllers see to what is named.
        # A kubelet's own are known by the annotation: one that it did not make itself it deletes.
        kinds = {owner.kind for owner in self.metadata.owner_references or () if owner.controller}
        return "DaemonSet" in kinds or MIRROR_ANNOTATION in (self.metadata.annotations or {})

    def list_resources(self) -> set[str]:
        """Return the names of the resources that its containers ask for, any amount of them."""
        containers = (*self.spec.containers, *(self.spec.init_containers or ()))
        return {
            name
            for each in containers
            for table in (each.resources.limits, each.resources.requests)
            for name, amount in (table or {}).items()
            if str(amount) != "0"
        }


class CardUsers:
    """Tells which pods of a node use cards of a vendor; what is not known counts as use.

    Args:
        vendor: whose driver goes; empty for all of them.
        cards: of the node; None where they are not known.
        profiles: by vendor.
        shared: the resources by which accelkit's dialects share cards, of whatever vendor.
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
        """Return whether a pod uses such a card, as far as its resources, claims and assignment tell."""
        # A claim does not say which vendor's device it was given.
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
    """Pods by when they are asked to leave.

    Attributes:
        next: those of the lowest priority, sorted by name; those that are leaving already are among them.
        later: how many leave after them.
        staying: those that would come back at once, so nobody evicts them.
    """

    next: tuple[BoundPod, ...]
    later: int
    staying: tuple[BoundPod, ...]


def plan_waves(pods: Sequence[BoundPod], users: CardUsers) -> Waves:
    """Return who leaves next: nobody of a higher priority is asked while one of a lower is there."""
    using = [pod for pod in pods if not pod.ended and users.includes(pod)]
    staying = tuple(pod for pod in using if pod.comes_back)
    going = sorted((pod for pod in using if not pod.comes_back), key=lambda pod: (pod.priority, str(pod.ref)))
    first = [pod for pod in going if pod.priority == going[0].priority]
    return Waves(tuple(first), len(going) - len(first), staying)
