"""Pods to evict before a node's driver is replaced: pods that use the vendor's cards, by ascending priority."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from accelkit.errors import AssignmentError
from accelkit.kube.views.metadata import OwnedMeta
from accelkit.kube.views.pod import BoundSpec, EvictablePod
from accelkit.model.assignment import decode_assignment
from accelkit.model.card import Card
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Container
from accelkit.vendors.profiles import Profile


class _Claim(msgspec.Struct):
    name: str = ""


class _Spec(BoundSpec, rename="camel"):
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    resource_claims: list[_Claim] | None = None


class DrainablePod(EvictablePod):
    """A pod of the node, with the fields that determine whether the pod must be evicted."""

    metadata: OwnedMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def comes_back(self) -> bool:
        """Whether the kubelet or a DaemonSet would restart the pod on this node despite a cordon."""
        return self.static or "DaemonSet" in self.metadata.list_controllers()

    def list_resources(self) -> set[str]:
        """Return the names of the resources that the containers of the pod request, in any amount."""
        containers = (*self.spec.containers, *(self.spec.init_containers or ()))
        return {
            name
            for each in containers
            for table in (each.resources.limits, each.resources.requests)
            for name, amount in (table or {}).items()
            if str(amount) != "0"
        }


class CardUsers:
    """Detector for pods that use a vendor's cards. A pod is included if it is unknown whether it uses a card.

    Args:
        vendor: the vendor whose driver is replaced; empty for all vendors.
        cards: the cards of the node; None if they are unknown.
        profiles: the profiles by vendor.
        shared: the resources that accelkit's dialects use to share cards of any vendor.
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

    def includes(self, pod: DrainablePod) -> bool:
        """Return whether a pod uses a card of the vendor, according to its resources, claims and assignment."""
        # A resource claim does not specify the vendor of its device.
        if pod.spec.resource_claims:
            return True
        resources = pod.list_resources()
        if any(fnmatchcase(name, pattern) for name in resources for pattern in self._patterns):
            return True
        return bool(resources & self._shared) and not self._holds_others_alone(pod)

    def _holds_others_alone(self, pod: DrainablePod) -> bool:
        text = (pod.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION)
        try:
            assignment = None if text is None else decode_assignment(text)
        except AssignmentError:
            return False
        held = {share.card for shares in assignment.containers.values() for share in shares} if assignment else set()
        return bool(held) and held <= self._others


class Waves(msgspec.Struct, frozen=True):
    """Pods in the order in which they are evicted.

    Attributes:
        next: the pods with the lowest priority, sorted by name, including pods that are being deleted.
        later: the number of pods that are evicted later.
        staying: pods that are not evicted because they would be restarted on the node.
    """

    next: tuple[DrainablePod, ...]
    later: int
    staying: tuple[DrainablePod, ...]


def plan_waves(pods: Sequence[DrainablePod], users: CardUsers) -> Waves:
    """Return the next pods to evict. Pods with a higher priority are evicted after the others have terminated."""
    using = [pod for pod in pods if not pod.ended and users.includes(pod)]
    staying = tuple(pod for pod in using if pod.comes_back)
    going = sorted((pod for pod in using if not pod.comes_back), key=lambda pod: (pod.priority, str(pod.ref)))
    first = [pod for pod in going if pod.priority == going[0].priority]
    return Waves(tuple(first), len(going) - len(first), staying)
