"""The cards of this node as they are advertised to its kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from accelkit.model.card import Card
from accelkit.model.inventory import FormerUnit
from accelkit.node.devices import DeviceIds
from accelkit.placement.topology.links import CardLinks, find_links


@dataclass(frozen=True)
class NodeCards:
    """The node's cards by ID, the unit of memory in bytes, and the former units.

    `topology` contains the connections between the cards, in the format of the inventory.
    """

    cards: Mapping[str, Card]
    unit_bytes: int
    former_units: tuple[FormerUnit, ...] = ()
    topology: tuple[str, ...] = ()

    @cached_property
    def ids(self) -> DeviceIds:
        """The device IDs of these cards."""
        return DeviceIds(self.cards)

    @cached_property
    def links(self) -> CardLinks | None:
        """The connections between the cards, in the order of the cards; None if they are unknown."""
        return find_links(tuple(self.cards.values()), self.topology)
