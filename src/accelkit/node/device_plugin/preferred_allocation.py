"""Choice of the devices to offer to the kubelet before an allocation, and checks of the devices that the kubelet chose.

The kubelet does not identify the pod in a request. Therefore, the plugin offers IDs of the cards that were assigned to
containers that wait for the same number of units. It offers them in the order of admission. The response to Allocate
depends only on the IDs, not on the container. If the kubelet serves two containers of equal size in a different order,
the containers swap their cards. Each container gets the amount that it requested on a card with enough capacity, and
the reconciler corrects the assignments.
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
from accelkit.node.device_plugin.capacity_check import ContainerHolding
from accelkit.node.device_plugin.pending_allocations import (
    Devices,
    Wait,
    list_moved,
    list_pending_allocations,
    rank_pending_allocations,
    sort_by_expected_order,
)
from accelkit.node.devices import DeviceIds
from accelkit.node.node_cards import NodeCards
from accelkit.placement.policies import Policy, rank_card
from accelkit.placement.topology.ranking import rank_sets
from accelkit.placement.topology.set_request import SetRequest

# The kubelet reports an allocation immediately. An allocation that is not reported within this time is treated as
# failed.
_IN_FLIGHT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _PendingAllocation:
    """A response whose devices the kubelet does not report as allocated yet, in the unit at the time of the response.

    Attributes:
        key: the container that probably received the response; None if no container with an assignment waits for it.
        candidates: the UIDs of the pods that may have received the response; None if they are unknown.
    """

    device_ids: tuple[str, ...]
    devices: Devices
    unit_bytes: int
    key: Key | None
    candidates: frozenset[str] | None
    at: float


class PreferredAllocation:
    """The preferred devices and the pending responses of one resource.

    Args:
        whole: whether this is the resource of whole cards.
        unit_bytes: the size of one device, in bytes, which changes with the node's unit.
        ids: the device IDs of the node's cards, which change with the cards.
        clock: a monotonic clock in seconds.
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

    def settle(self, pods: Sequence[AssignedPod], unassigned: AbstractSet[str], held: AbstractSet[str]) -> None:
        """Remove the responses whose devices the kubelet reports as allocated, and the responses that failed.

        Args:
            pods: the pods of this node.
            unassigned: the UIDs of the pods that have no assignment and that the kubelet has not admitted.
            held: the IDs of the devices that are allocated to containers.
        """
        waiting = {pod.uid for pod in pods if not pod.admitted} | unassigned
        now = self._clock()
        self._pending = [
            allocation
            for allocation in self._pending
            if not all(device_id in held for device_id in allocation.device_ids)
            and now - allocation.at < _IN_FLIGHT_SECONDS
            and (allocation.candidates is None or not allocation.candidates.isdisjoint(waiting))
        ]

    def list_pending_cards(self) -> dict[str, str | None]:
        """Return the cards of pending responses, each with the UID of the pod that may get it; None if unknown."""
        return {
            card: None if allocation.key is None else allocation.key[0]
            for allocation in self._pending
            for card in allocation.devices
        }

    def list_pending(self) -> list[ContainerHolding]:
        """Return the devices of each pending response."""
        return [
            ContainerHolding(each.device_ids, each.devices, len(each.device_ids) * each.unit_bytes)
            for each in self._pending
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
        """Return IDs of devices on the cards that were assigned to a container that waits for this number of devices.

        If there is no such container, return IDs that can be safely allocated to a pod without an assignment: units of
        one card, chosen by the policy `binpack`, or whole cards that no pod shares, chosen by the policy `topology`. If
        there are no such IDs, return an empty list.

        Args:
            pods: the pods of this node.
            held: the devices of this resource that are already allocated, by container.
            available: the IDs that the kubelet can allocate.
            taken: the IDs that the kubelet must include, because the container reuses them from an init container.
            size: the total number of devices that the kubelet must allocate.
            avoid: the cards that are allocated to pods through other resources, or that are full.
            node: the node's cards; None if they are unknown.
        """
        if size < len(taken):
            return []
        for requested in self._rank_pending(pods, held, size):
            try:
                chosen = self.ids.pick(available, taken, requested)
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
        """Return whether any container waits for `size` devices."""
        return bool(self._rank_pending(pods, held, size))

    def check_unit(self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], size: int) -> None:
        """Raise an error if this number of devices was assigned to a container in another unit.

        Raises:
            DevicePluginError: this number of devices no longer corresponds to the amount that was assigned to the pod.
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
                    f"pod {pod.namespace}/{pod.name} was assigned units of {format_unit(other)}, but this "
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
        """Record an allocation of these IDs; return the container that probably gets them, or None if it is unknown.

        Args:
            pods: the pods of this node.
            held: the devices of this resource that are already allocated, by container.
            device_ids: the device IDs that the kubelet chose.
            unassigned: the UIDs of the pods that have no assignment and that the kubelet has not admitted; None if they
                are unknown. If it is empty, the pod was deleted during its admission, and no card is reserved for it.

        Raises:
            DevicePluginError: the IDs are on several cards, and no container waits for the same numbers of devices per
                card.
        """
        found = self.ids.count_by_card(device_ids)
        pending = self._rank_pending(pods, held, len(device_ids))
        alike = any(sorted(each.values()) == sorted(found.values()) for each in pending)
        if not alike and len(found) > 1 and not self._whole:
            cards = ", ".join(sorted(found))
            raise DevicePluginError(f"the kubelet chose devices of several cards ({cards}) for a container of one card")
        key = self.find_container(pods, held, device_ids) if alike else None
        candidates = unassigned if key is None else frozenset({key[0]})
        self._pending.append(
            _PendingAllocation(tuple(device_ids), found, self.unit_bytes, key, candidates, self._clock())
        )
        return key

    def find_container(
        self, pods: Sequence[AssignedPod], held: Mapping[Key, Devices], device_ids: Sequence[str]
    ) -> Key | None:
        """Return the container that probably gets these IDs; None if no container waits for such numbers."""
        found = self.ids.count_by_card(device_ids)
        alike = [
            (key, devices)
            for key, devices in sort_by_expected_order(self._list_waiting(pods, held), self._list_answered(held))
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
    """Return the IDs of the whole cards with the best connections; empty if the connections of a card are unknown."""
    places = {card: place for place, card in enumerate(node.cards)} if node else {}
    if node is None or node.links is None or not places.keys() >= {*available, *taken}:
        return []
    free, required = (sum(1 << places[card] for card in cards) for cards in (available, taken))
    chosen = next(rank_sets(node.links, SetRequest(size, free | required, free, required)), ())
    names = list(node.cards)
    return [*taken, *(names[place] for place in chosen if not required >> place & 1)] if chosen else []


def check_exclusive(cards: Iterable[str], others: Mapping[str, str | None], *, whole: bool) -> None:
    """Raise an error if one of these cards is allocated to a pod through the other resource.

    Args:
        cards: the cards whose devices the kubelet chose.
        others: the cards that are allocated through the other resource, each with a pod that uses it; None if unknown.
        whole: whether the kubelet allocates whole cards.

    Raises:
        DevicePluginError: a card would be over capacity.
    """
    for card in cards:
        if card in others:
            held = "shares its memory" if whole else "holds it whole"
            holder = others[card] or "another pod"
            raise DevicePluginError(f"card {card} would be over capacity: {holder} {held}")
