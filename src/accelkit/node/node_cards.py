"""The cards of this node as they are shown to its kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from accelkit.model.card import Card
from accelkit.model.inventory import FormerUnit
from accelkit.node.devices import DeviceIds


@dataclass(frozen=True)
class NodeCards:
    """The node's cards by id, what a unit of memory is worth in bytes, and what it was worth before."""

    cards: Mapping[str, Card]
    unit_bytes: int
    former_units: tuple[FormerUnit, ...] = ()

    @cached_property
    def ids(self) -> DeviceIds:
        """The device IDs that these cards have."""
        return DeviceIds(self.cards)
