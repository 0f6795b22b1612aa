"""A card that discovery found on this host, with additional facts for containers and health checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelkit.model.card import Card
from accelkit.vendors.profiles import Profile


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, with the facts that are required to provide access to the card for a container.

    Attributes:
        card: the card as in the inventory.
        index: the number of the card among all cards of the node.
        minor: the driver's number that is part of the names of device nodes; None if it is unknown. The index is not
            used as a substitute, because it may be different.
        profile: the profile of its vendor, with the device nodes of this host.
        render: the number of its render node; None if it is unknown or the card has no render node.
        uuid: its name in the vendor's tools; None if it is unknown.
        device: its folder in `/sys/bus/pci/devices`, below the root; None if it is not a PCI device.
        part_of: the name, in the vendor's tools, of the card that contains it; None if it is not a part of a card.
        part_nodes: the device nodes of the part, in addition to the nodes of the card; None if they are unknown.
        driver: the kernel driver that is bound to it; None if no driver is bound or the driver is unknown.
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

    def place_beside(self, nic: str) -> FoundCard:
        """Return a copy of the card with the `Nearness` letter of its nearest NIC."""
        return self if self.card.nic == nic else replace(self, card=msgspec.structs.replace(self.card, nic=nic))

    def oversubscribe(self, memory_factor: float) -> FoundCard:
        """Return a copy of the card whose shares may use `memory_factor` times its memory."""
        if self.card.memory_factor == memory_factor:
            return self
        return replace(self, card=msgspec.structs.replace(self.card, memory_factor=memory_factor))
