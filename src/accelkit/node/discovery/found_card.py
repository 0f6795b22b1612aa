"""A card of this host as discovery found it, with what containers and health checks need beyond the inventory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelkit.model.card import Card
from accelkit.vendors.profiles import Profile


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, with what a container needs to reach it.

    Attributes:
        index: the node's own numbering over all cards.
        minor: the driver's number in device node names, None when unknown: the index would be a guess.
        profile: its vendor's, with device nodes as this host names them.
        render: the number of its render node, None when unknown or without one.
        uuid: what the vendor's own tools call it; None when unknown.
        device: its folder in sysfs as `/sys/bus/pci/devices` names it, below the root; None where it is no PCI device.
        part_of: what the vendor's own tools call the card that it is a part of; None of a card in one piece.
        part_nodes: device nodes of the part itself, beside those of the card; None where they are not known.
        driver: the kernel driver that is bound to it; None where none is, or where that cannot be seen.
    """

    card: Card
    index: int
    minor: int | None
    profile: Profile
    render: int | None = None
    uuid: str | None = None
    device: Path | None = None
    driver: str | None = None
    part_of: str | None = None
    part_nodes: tuple[str, ...] | None = ()

    def oversubscribe(self, memory_factor: float) -> FoundCard:
        """Return the card with so many times its memory for all shares together."""
        if self.card.memory_factor == memory_factor:
            return self
        return replace(self, card=msgspec.structs.replace(self.card, memory_factor=memory_factor))
