"""The cards of this node as they are shown to its kubelet."""

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
    """The node's cards by id, what a unit of memory is worth in bytes, and what it was worth before.

    `topology` is how near the cards are to each other, as the inventory has it.
    """

    cards: Mapping[str, Card]
    unit_bytes: int
    former_units: tuple[FormerUnit, ...] = ()
    topology: tuple[str, ...] = ()

    @cached_property
    def ids(self) -> DeviceIds:
        """The device IDs that these cards have."""
        return DeviceIds(self.cards)

    @cached_property
    def links(self) -> CardLinks | None:
        """How the cards are connected, in their order; None where nobody knows."""
        return find_links(tuple(self.cards.values()), self.topology)
