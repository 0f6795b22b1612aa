"""Chooses which devices the kubelet is offered before an allocation, and checks what it chose during it.

The kubelet gives no pod identity. Steering offers the IDs of the cards that were assigned to the containers which
wait for this many units, in the order of admission. The answer to Allocate never depends on who is
meant: it comes from the IDs. Two containers of equal size that the kubelet takes in another order swap their cards;
both get what they asked for, on cards that have it, and their assignments are corrected afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from accelkit.errors import DevicePluginError
from accelkit.model.units import format_unit
from accelkit.node.assigned_pod import AssignedPod, Key
from accelkit.node.device_plugin.capacity_check import Holding
from accelkit.node.device_plugin.pending_allocations import (
    Devices,
    Wait,
    list_moved,
    list_pending_allocations,
    rank_pending_allocations,
    sort_by_turn,
)
from accelkit.node.devices import DeviceIds
from accelkit.node.node_cards import NodeCards
from accelkit.placement.policies import Policy, rank_card
from accelkit.placement.topology.ranking import rank_sets
from accelkit.placement.topology.wanted import Wanted

# The kubelet shows an allocation at once; one it does not show after this time came to nothing.
_IN_FLIGHT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _PendingAllocation:
    """An answer that the kubelet does not show as held yet, in the unit of its moment.

    Attributes:
        key: who probably has it; None where nobody with an assignment waits for it.
        meant: UIDs of the pods one of which must have it; None where that is unknown.
    """

    device_ids: tuple[str, ...]
    devices: Devices
    unit_bytes: int
    key: Key | None
    meant: frozenset[str] | None
    at: float


class PreferredAllocation:
    """Chooses the devices of one resource that the kubelet is offered, and tracks the allocations under way.

    Args:
        whole: whether this is the resource of whole cards.
        unit_bytes: what one device of memory is worth; it changes with the node's unit.
        ids: the device IDs of the node's cards; they change with the cards.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        *,
        whole: bool,
        unit_bytes: int = 1,
        ids: DeviceIds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._whole = whole
        self._clock = clock
        self.unit_bytes = unit_bytes
        self.ids = ids or DeviceIds(())
        self._pending: list[_PendingAllocation] = []

    def settle(self, pods: Sequence[AssignedPod], unassigned: AbstractSet[str], shown: AbstractSet[str]) -> None:
        """Forget what the kubelet shows as held, and what came to nothing.

        Args:
            pods: this node's pods.
            unassigned: UIDs of those without assignment that the kubelet has not taken.
            shown: the device IDs that containers hold.
        """
        taking = {pod.uid for pod in pods if not pod.admitted} | unassigned
        now = self._clock()
        self._pending = [
            allocation
            for allocation in self._pending
            if not all(device_id in shown for device_id in allocation.device_ids)
            and now - allocation.at < _IN_FLIGHT_SECONDS
            and (allocation.meant is None or not allocation.meant.isdisjoint(taking))
        ]

    def list_pending_cards(self) -> dict[str, str | None]:
        """Return the cards of what is under way, with the UID that probably gets it; None where that is unknown."""
        return {
            card: None if allocation.key is None else allocation.key[0]
            for allocation in self._pending
            for card in allocation.devices
        }

    def list_pending(self) -> list[Holding]:
        """Return what each answer that is under way gives."""
        return [
            Holding(each.device_ids, each.devices, len(each.device_ids) * each.unit_bytes) for each in self._pending
        ]

    def prefer(
        self,
        pods: Sequence[AssignedPod],
        held: Mapping[Key, Devices],
        *,
        available: Sequence[str],
        taken: Sequence[str],
        size: int,
        avoid: Collection[str],
        node: NodeCards | None = None,
    ) -> list[str]:
        """Return the IDs of the cards that were assigned to a container of this size.

        Where none waits for this many, IDs that keep a pod without assignment harmless: of one card, chosen as binpack
        would, or whole cards that nobody shares, chosen as topology would. Nothing where there are none.

        Args:
            pods: this node's pods.
            held: what containers hold of this resource already.
            available: what the kubelet can give.
            taken: what it gives in any case, from an init container.
            size: how many it needs together.
            avoid: cards that pods hold through the other resource.
            node: the node's cards; None where they are not known.
        """
        if size < len(taken):
            return []
        for wanted in self._rank_pending(pods, held, size):
            try:
                chosen = self.ids.pick(available, taken, wanted)
            except DevicePluginError:
                continue
            if len(chosen) == size:
                return chosen
        harmless = [device_id for device_id in available if self.ids.find_card(device_id) not in avoid]
        if not self._whole:
            return self._pick_one_card(harmless, taken, size)
        others = sorted(set(harmless) - set(taken))
        chosen = _pick_linked(node, others, taken, size) or [*taken, *others][:size]
        return chosen if len(chosen) == size else []

    def expects(self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], size: int) -> bool:
        """Whether any container waits for so many devices."""
        return bool(self._rank_pending(pods, held, size))

    def check_unit(self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], size: int) -> None:
        """Refuse a container that nobody waits for if one from the time of another unit does.

        Raises:
            DevicePluginError: as many devices are worth another amount now than the pod was assigned.
        """
        if self._whole or self.expects(pods, held, size):
            return
        recorded = {allocation.key for allocation in self._pending}
        for pod in pods:
            for container, units in pod.units.items():
                key, other = (pod.uid, container), pod.find_other_unit(container, self.unit_bytes)
                known = pod.admitted or key in recorded or key in held
                if units != size or known or other is None:
                    continue
                raise DevicePluginError(
                    f"pod {pod.namespace}/{pod.name} was assigned units of {format_unit(other)} and this "
                    f"node now has units of {format_unit(self.unit_bytes)}",
                    next_step="create the pod again",
                )

    def record(
        self,
        pods: Sequence[AssignedPod],
        held: Mapping[Key, Devices],
        device_ids: Sequence[str],
        *,
        unassigned: frozenset[str] | None = None,
    ) -> Key | None:
        """Record an allocation of these IDs; return who probably gets them, None where nobody waits for so many.

        Args:
            pods: this node's pods.
            held: what containers hold of this resource already.
            device_ids: what the kubelet chose.
            unassigned: UIDs of the pods without assignment that the kubelet has not taken; None where they are not
                known. Where it is empty, the pod was deleted while it was admitted, and no card is kept for it.

        Raises:
            DevicePluginError: the IDs lie on several cards and no container of that size waits for that many.
        """
        found = self.ids.count_by_card(device_ids)
        pending = self._rank_pending(pods, held, len(device_ids))
        alike = any(sorted(each.values()) == sorted(found.values()) for each in pending)
        if not alike and len(found) > 1 and not self._whole:
            cards = ", ".join(sorted(found))
            raise DevicePluginError(f"the kubelet chose devices of several cards ({cards}) for a container of one card")
        key = self.find_container(pods, held, device_ids) if alike else None
        meant = unassigned if key is None else frozenset({key[0]})
        self._pending.append(_PendingAllocation(tuple(device_ids), found, self.unit_bytes, key, meant, self._clock()))
        return key

    def find_container(
        self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], device_ids: Sequence[str]
    ) -> Key | None:
        """Return the container that probably gets these IDs, None where nobody waits for as many of cards."""
        found = self.ids.count_by_card(device_ids)
        alike = [
            (key, devices)
            for key, devices in sort_by_turn(self._list_waiting(pods, held), self._list_answered(held))
            if sorted(devices.values()) == sorted(found.values())
        ]
        return next((key for key, devices in alike if devices == found), alike[0][0] if alike else None)

    def _rank_pending(self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], size: int) -> list[Counter[str]]:
        return rank_pending_allocations(
            size,
            self._list_waiting(pods, held),
            list_moved(pods, held, whole=self._whole),
            [allocation.devices for allocation in self._pending],
            self._list_answered(held),
        )

    def _list_answered(self, held: Mapping[Key, Devices]) -> set[Key]:
        return {*held, *(allocation.key for allocation in self._pending if allocation.key is not None)}

    def _list_waiting(self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices]) -> list[Wait]:
        return list_pending_allocations(pods, held, whole=self._whole, unit_bytes=self.unit_bytes)

    def _pick_one_card(self, available: Sequence[str], taken: Sequence[str], size: int) -> list[str]:
        free, held = self.ids.count_by_card({*available, *taken}), self.ids.count_by_card(taken)
        fitting = [(rank_card(Policy.BINPACK, free[card], index), card) for index, card in enumerate(sorted(free))]
        for _, card in sorted(entry for entry in fitting if free[entry[1]] >= size):
            if set(held) <= {card}:
                return self.ids.pick(available, taken, Counter({card: size}))
        return []


def _pick_linked(node: NodeCards | None, available: Sequence[str], taken: Sequence[str], size: int) -> list[str]:
    """Return the whole cards that are connected best; nothing where nobody knows the connections of all of them."""
    places = {card: place for place, card in enumerate(node.cards)} if node else {}
    if node is None or node.links is None or not places.keys() >= {*available, *taken}:
        return []
    free, required = (sum(1 << places[card] for card in cards) for cards in (available, taken))
    chosen = next(rank_sets(node.links, Wanted(size, free | required, free, required)), ())
    names = list(node.cards)
    return [*taken, *(names[place] for place in chosen if not required >> place & 1)] if chosen else []


def check_exclusive(cards: Iterable[str], others: Mapping[str, str | None], *, whole: bool) -> None:
    """Refuse cards that the other resource has given away.

    Args:
        cards: of which the kubelet chose devices.
        others: cards that pods hold through the other resource, with who holds them; None where that is unknown.
        whole: whether whole cards are asked for.

    Raises:
        DevicePluginError: a card would be over capacity.
    """
    for card in cards:
        if card in others:
            held = "shares its memory" if whole else "holds it whole"
            holder = others[card] or "another pod"
            raise DevicePluginError(f"card {card} would be over capacity: {holder} {held}")
