"""Dialects in which cards may be allocated to pods, including dialects that are no longer or not yet in use.

After a dialect is no longer in use, its pods continue to use their cards until they terminate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_usable_dialects
from accelkit.vendors.pod_reading import CardPod, PodReader
from accelkit.vendors.profiles import is_plugin_resource


@dataclass(frozen=True, slots=True)
class DeviceResources:
    """The resources through which devices from accelkit's agents may be allocated to containers.

    Attributes:
        memory: the resources that count units of memory.
        cards: the resources that count whole cards.
        ambiguous: the resources in `memory` and `cards` that device plugins of other systems also serve. Their devices
            are counted only for pods with an assignment.
    """

    memory: tuple[str, ...]
    cards: tuple[str, ...]
    ambiguous: frozenset[str]


NO_RESOURCES: Final = DeviceResources((), (), frozenset())


def list_device_resources(served: Dialect) -> DeviceResources:
    """Return the resources of the dialect that an agent serves and of all other dialects that agents can serve."""
    all_resources = [served.resources, *(each.resources for each in _list_others([served.name]) if each.advertised)]
    memory = tuple(dict.fromkeys(each.memory for each in all_resources if each.memory))
    cards = tuple(dict.fromkeys(each.cards for each in all_resources if each.cards))
    others = {*memory, *cards} - {served.resources.memory, served.resources.cards}
    return DeviceResources(memory, cards, frozenset(filter(is_plugin_resource, others)))


class BoundPodReader:
    """Reader for pods that may have cards. It tries the dialects in use first, then other dialects.

    In a dialect that is not in use, a pod is counted if it has an assignment, or if no device plugin of another system
    serves the dialect's resources.

    Args:
        dialects: the dialects in use.
        advertised: whether dialects that are not in use are considered only if accelkit's agents can serve them.
    """

    def __init__(self, dialects: Sequence[Dialect], *, advertised: bool = False) -> None:
        others = _list_others([each.name for each in dialects])
        ours = [each for each in others if each.advertised and each.cards_are_ours]
        assignable = [each for each in others if each.advertised or not advertised]
        self._reader = PodReader(dialects)
        self._former = PodReader([*ours, *dialects]) if ours else self._reader
        self._assigned = PodReader([*assignable, *dialects]) if assignable else self._reader
        self._all = PodReader([*dialects, *others])

    def read(self, pod: Pod) -> CardPod | None:
        """Return the converted pod; None if it neither requests cards nor has an assignment."""
        found = self._reader.read(pod)
        if found is None or not found.requests_cards:
            former = self._former.read(pod)
            found = former if former is not None and former.requests_cards else found
        if found is not None and not found.requests_cards and found.assignment is not None:
            return self._assigned.read(pod)
        return found

    def trim(self, pod: Pod, *, keep: Collection[str] = ()) -> None:
        """Remove the fields of a pod that `read` does not use, except for the annotations to keep."""
        assigned = pod.find_annotation(ASSIGNMENT_ANNOTATION) is not None
        (self._all if assigned else self._former).trim(pod, keep=keep)


def _list_others(names: Collection[str]) -> list[Dialect]:
    return [each for each in load_usable_dialects() if each.name not in names]
