"""The dialects in which pods may hold cards, also those that are not in use any more, or not yet.

A dialect that is taken out of use leaves pods behind that hold cards until they end.
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
    """The resources by which containers may hold devices of our agents.

    Attributes:
        memory: those that count units of memory.
        cards: those that count whole cards.
        doubtful: those of them by which other device plugins give cards too; they count for pods with an assignment.
    """

    memory: tuple[str, ...]
    cards: tuple[str, ...]
    doubtful: frozenset[str]


NO_RESOURCES: Final = DeviceResources((), (), frozenset())


def list_device_resources(served: Dialect) -> DeviceResources:
    """Return the resources of a dialect that an agent serves, and of all others that agents can serve."""
    all_resources = [served.resources, *(each.resources for each in _list_others([served.name]) if each.advertised)]
    memory = tuple(dict.fromkeys(each.memory for each in all_resources if each.memory))
    cards = tuple(dict.fromkeys(each.cards for each in all_resources if each.cards))
    others = {*memory, *cards} - {served.resources.memory, served.resources.cards}
    return DeviceResources(memory, cards, frozenset(filter(is_plugin_resource, others)))


class BoundPodReader:
    """Reads pods that may hold cards: in the dialects in use, else in those that may have been.

    In a dialect that is not in use, pods count if no other device plugin gives cards by its resources, or if they have
    an assignment.

    Args:
        dialects: those in use.
        advertised: whether only dialects count besides them that our agents can serve.
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
        """Return the pod's reading; None where it has nothing to do with cards."""
        found = self._reader.read(pod)
        if found is None or not found.asks:
            former = self._former.read(pod)
            found = former if former is not None and former.asks else found
        if found is not None and not found.asks and found.assignment is not None:
            return self._assigned.read(pod)
        return found

    def trim(self, pod: Pod, *, keep: Collection[str] = ()) -> None:
        """Take from a pod what `read` does not look at, but for some further annotations."""
        assigned = pod.find_annotation(ASSIGNMENT_ANNOTATION) is not None
        (self._all if assigned else self._former).trim(pod, keep=keep)


def _list_others(names: Collection[str]) -> list[Dialect]:
    return [each for each in load_usable_dialects() if each.name not in names]
