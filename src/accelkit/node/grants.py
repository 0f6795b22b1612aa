"""Which container the kubelet means: steering before an allocation, checks during it.

The kubelet gives no pod identity. Steering offers the IDs of the cards assigned to the container that is most likely
meant: the first one, in the order of admission, that waits for this many units. The answer to Allocate never depends on
that guess: it comes from the IDs. Two containers of equal size that the kubelet takes in another order swap their
cards; both get what they asked for, on cards that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelkit.errors import DevicePluginError
from accelkit.model.assignment import Assignment, Share
from accelkit.model.units import unit_name
from accelkit.node.devices import by_card, card_of, pick
from accelkit.placement.policies import Policy, card_rank

Key = tuple[str, str]  # pod UID, container name


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod of this node with its assignment.

    Attributes:
        order: sorts as the kubelet admits.
        containers: in the order in which it allocates.
        units: how many units of memory each container asks for, by name.
        admitted: whether the kubelet has taken the pod, devices and all.
    """

    uid: str
    namespace: str
    name: str
    order: tuple[str, str]
    containers: tuple[str, ...]
    assignment: Assignment
    units: Mapping[str, int] = field(default_factory=dict)
    admitted: bool = True

    def memory_bytes(self, container: str) -> int:
        """Return the memory that a container was assigned on shared cards."""
        return sum(share.memory_bytes for share in self.assignment.containers.get(container, ()) if not share.whole)

    @property
    def unit_bytes(self) -> set[int]:
        """The units that the pod was assigned its memory in; empty where it shares no card."""
        amounts = {name: self.memory_bytes(name) for name in self.units}
        return {amount // self.units[name] for name, amount in amounts.items() if amount}


class Grants:
    """The allocations of one resource on this node, as far as they can be attributed.

    Args:
        whole: whether this is the resource of whole cards.
        unit_bytes: what one device of memory is worth; it changes with the node's unit.
    """

    def __init__(self, *, whole: bool, unit_bytes: int = 1) -> None:
        self._whole = whole
        self.unit_bytes = unit_bytes
        self._granted: dict[Key, tuple[str, ...]] = {}

    def keep(self, pods: Collection[str]) -> None:
        """Forget pods that are gone or have ended."""
        self._granted = {key: ids for key, ids in self._granted.items() if key[0] in pods}

    def cards(self, held: Collection[Key]) -> dict[str, str]:
        """Return the cards of what was granted and the kubelet does not show as held yet, with the UID that got it."""
        return {card: key[0] for key, ids in self._granted.items() if key not in held for card in by_card(ids)}

    def granted(self) -> Mapping[Key, Sequence[str]]:
        """Return the devices of each container that was answered."""
        return self._granted

    def prefer(
        self,
        pods: Sequence[AssignedPod],
        held: Collection[Key],
        *,
        available: Sequence[str],
        taken: Sequence[str],
        size: int,
        avoid: Collection[str],
    ) -> list[str]:
        """Return the IDs of the cards assigned to the container that is most likely meant.

        Where none waits for this many, IDs that keep a pod without assignment harmless: of one card, chosen as binpack
        would, or whole cards that nobody shares. Nothing where there are none.

        Args:
            pods: this node's pods.
            held: the containers that hold devices of this resource already.
            available: what the kubelet can give.
            taken: what it gives in any case, from an init container.
            size: how many it needs together.
            avoid: cards that pods hold through the other resource.
        """
        for _, wanted in self._waiting(pods, held, size):
            try:
                chosen = pick(available, taken, wanted)
            except DevicePluginError:
                continue
            if len(chosen) == size:
                return chosen
        harmless = [device_id for device_id in available if card_of(device_id) not in avoid]
        if not self._whole:
            return _on_one_card(harmless, taken, size)
        chosen = [*taken, *sorted(set(harmless) - set(taken))][:size]
        return chosen if len(chosen) == size else []

    def expects(self, pods: Sequence[AssignedPod], held: Collection[Key], size: int) -> bool:
        """Whether any container waits for so many devices."""
        return next(self._waiting(pods, held, size), None) is not None

    def check_unit(self, pods: Sequence[AssignedPod], held: Collection[Key], size: int) -> None:
        """Refuse a container that nobody waits for if one from the time of another unit does.

        Raises:
            DevicePluginError: as many devices are worth another amount now than the pod was assigned.
        """
        if self._whole or self.expects(pods, held, size):
            return
        for pod in pods:
            for container, units in pod.units.items():
                key, amount = (pod.uid, container), pod.memory_bytes(container)
                if units != size or key in self._granted or key in held or amount in (0, size * self.unit_bytes):
                    continue
                raise DevicePluginError(
                    f"pod {pod.namespace}/{pod.name} was assigned units of {unit_name(amount // units)} and this node "
                    f"now has units of {unit_name(self.unit_bytes)}",
                    next_step="create the pod again",
                )

    def attribute(self, pods: Sequence[AssignedPod], held: Collection[Key], device_ids: Sequence[str]) -> Key | None:
        """Note who probably got these IDs: the first waiting container of that size, one on these cards before others.

        Raises:
            DevicePluginError: the IDs lie on several cards and no container of that size waits for that many.
        """
        found = by_card(device_ids)
        waiting = list(self._waiting(pods, held, len(device_ids)))
        same = [key for key, wanted in waiting if wanted == found]
        alike = [key for key, wanted in waiting if sorted(wanted.values()) == sorted(found.values())]
        if not alike and len(found) > 1 and not self._whole:
            cards = ", ".join(sorted(found))
            raise DevicePluginError(f"the kubelet chose devices of several cards ({cards}) for a container of one card")
        if not alike:
            return None
        key = (same or alike)[0]
        self._granted[key] = tuple(device_ids)
        return key

    def _waiting(
        self, pods: Sequence[AssignedPod], held: Collection[Key], size: int
    ) -> Iterator[tuple[Key, Counter[str]]]:
        for pod in sorted(pods, key=lambda pod: pod.order):
            for container in pod.containers:
                key = (pod.uid, container)
                if key in self._granted or key in held:
                    continue
                wanted = self._wanted(pod.assignment.containers.get(container, ()))
                if wanted.total() == size:
                    yield key, wanted

    def _wanted(self, shares: Sequence[Share]) -> Counter[str]:
        return Counter(
            {
                share.card: 1 if self._whole else share.memory_bytes // self.unit_bytes
                for share in shares
                if share.whole == self._whole
            }
        )


def _on_one_card(available: Sequence[str], taken: Sequence[str], size: int) -> list[str]:
    free = by_card({*available, *taken})
    fitting = [(card_rank(Policy.BINPACK, free[card], index), card) for index, card in enumerate(sorted(free))]
    for _, card in sorted(entry for entry in fitting if free[entry[1]] >= size):
        if set(by_card(taken)) <= {card}:
            return pick(available, taken, Counter({card: size}))
    return []


def check_exclusive(device_ids: Sequence[str], others: Mapping[str, str], *, whole: bool) -> None:
    """Refuse IDs of cards that the other resource has given away.

    Args:
        device_ids: what the kubelet chose.
        others: cards that pods hold through the other resource, with who holds them.
        whole: whether whole cards are asked for.

    Raises:
        DevicePluginError: a card would be over capacity.
    """
    for card in by_card(device_ids):
        if card in others:
            held = "shares its memory" if whole else "holds it whole"
            raise DevicePluginError(f"card {card} would be over capacity: {others[card]} {held}")
