"""Observed assignments: the cards that the kubelet allocated to a pod, regardless of the pod's assignment.

The kubelet reports the device IDs of app containers and sidecars, and each of accelkit's IDs identifies a card. The
kubelet does not report plain init containers. It reuses their devices for subsequent containers, so an init container
had the same cards as these containers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.request import Kind
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.node.node_cards import NodeCards


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The device IDs that are allocated to a container, for memory and for whole cards."""

    memory: Sequence[str] = ()
    whole: Sequence[str] = ()

    def add(self, device_ids: Sequence[str], *, whole: bool) -> ContainerDevices:
        """Return a copy to which the devices of another resource are added, either as whole cards or as memory."""
        if whole:
            return ContainerDevices(self.memory, [*self.whole, *device_ids])
        return ContainerDevices([*self.memory, *device_ids], self.whole)


@dataclass(slots=True)
class _Moves:
    """The cards that were allocated to containers instead of the assigned cards, to infer init containers' cards."""

    # The allocated cards, keyed by assigned card.
    to: dict[str, set[str]] = field(default_factory=dict)

    def note(self, was: Sequence[Share], now: Sequence[Share]) -> None:
        """Record the cards of a container if it has exactly one assigned and one allocated card."""
        if len(was) == len(now) == 1:
            self.to.setdefault(was[0].card, set()).add(now[0].card)

    def follow(self, share: Share) -> Share:
        """Return the share on the card that was allocated to the recorded containers instead of the assigned card.

        If no card or several cards were recorded, return the share itself.
        """
        cards = self.to.get(share.card, set())
        return Share(next(iter(cards)), share.memory_bytes, share.compute, share.whole) if len(cards) == 1 else share


def observe_assignment(
    assignment: Assignment | None,
    order: Sequence[tuple[str, Kind]],
    held: Mapping[str, ContainerDevices],
    node: NodeCards,
    unit_bytes: int,
) -> Assignment | None:
    """Return the assignment that matches the pod's devices; None if it has neither an assignment nor devices.

    The assignment of a container does not change if the kubelet does not report the container, or if the plugin of
    another system allocated its devices.

    Args:
        assignment: the valid part of the written assignment; None if the pod has no assignment.
        order: the pod's containers and their kinds.
        held: the devices that the kubelet reports, by container.
        node: the node's cards.
        unit_bytes: the unit of memory in which the kubelet allocated devices to the pod.
    """
    planned = {} if assignment is None else {k: v for k, v in assignment.containers.items() if k != MOVING}
    containers = dict(planned)
    moves = {False: _Moves(), True: _Moves()}
    for name, devices in held.items():
        if not _are_ours(devices, node):
            continue
        was = planned.get(name, ())
        now = _observe_shares(was, devices, node, unit_bytes)
        for whole in (False, True):
            moves[whole].note([s for s in was if s.whole is whole], [s for s in now if s.whole is whole])
        containers[name] = now
    for name, kind in order:
        if kind is Kind.INIT and name in planned and name not in held:
            containers[name] = tuple(moves[share.whole].follow(share) for share in planned[name])
    return Assignment(containers) if containers else None


def _are_ours(devices: ContainerDevices, node: NodeCards) -> bool:
    memory = (node.ids.owns(device_id, whole=False) for device_id in devices.memory)
    whole = (node.ids.owns(device_id, whole=True) for device_id in devices.whole)
    return bool(devices.memory or devices.whole) and all(memory) and all(whole)


def _observe_shares(
    was: Sequence[Share], devices: ContainerDevices, node: NodeCards, unit_bytes: int
) -> tuple[Share, ...]:
    compute = max((share.compute for share in was if not share.whole), default=0)
    counts: Counter[str] = node.ids.count_by_card(devices.memory)
    found = [Share(card, count * unit_bytes, compute) for card, count in sorted(counts.items())]
    found += [
        Share(card, node.cards[card].capacity_bytes, WHOLE_COMPUTE, whole=True) for card in sorted(set(devices.whole))
    ]
    return tuple(found)
