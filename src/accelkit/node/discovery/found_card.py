"""A card of this host as discovery found it. It has facts for containers and health checks beyond the inventory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelkit.model.card import Card
from accelkit.vendors.profiles import Profile


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, with the facts that give a container access to it.

    Attributes:
        card: the card in the inventory.
        index: the number of the card among all cards of the node.
        minor: the driver number in the names of device nodes; None if unknown, because using the index would be a
            guess.
        profile: the profile of its vendor, with the device nodes of this host.
        render: the number of its render node; None if it is unknown or does not exist.
        uuid: its name in the vendor's tools; None if unknown.
        device: its folder in sysfs, below the root, as in `/sys/bus/pci/devices`; None if it is not a PCI device.
        part_of: the name, in the vendor's tools, of the card that it is a part of; None if it is not a part.
        part_nodes: the device nodes of the part, besides those of the card; None if unknown.
        driver: the kernel driver that is bound to it; None if there is none or it cannot be read.
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
        """Return the card with the letter of its nearest network card."""
        return self if self.card.nic == nic else replace(self, card=msgspec.structs.replace(self.card, nic=nic))

    def oversubscribe(self, memory_factor: float) -> FoundCard:
        """Return the card with `memory_factor` times its memory available to its shares."""
        if self.card.memory_factor == memory_factor:
            return self
        return replace(self, card=msgspec.structs.replace(self.card, memory_factor=memory_factor))
