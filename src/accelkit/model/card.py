"""A card: one physical accelerator of a node, with an identity that survives a reboot."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.amounts import Amounts

# The kubelet accepts device IDs of up to 63 characters, which also contain the number of a unit.
MAX_CARD_ID = 48
# A larger factor is rejected because it is probably a mistake.
MAX_MEMORY_FACTOR = 16.0
# The format of a target that a card reports: BACKEND:ARCH, such as `cuda:75` or `hip:gfx90a:xnack-`.
TARGET_PATTERN = r"^([a-z][a-z0-9_-]{0,15}:[A-Za-z0-9][A-Za-z0-9_.:+-]{0,47})?$"

MAX_DRIVER_VERSION = 48
# The format of a PCI address in sysfs. A domain has up to 32 bits.
PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Health(StrEnum):
    """Health of a card. A card accepts new shares if its health is HEALTHY or UNKNOWN."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=False, omit_defaults=True):
    """A direct connection to another card of the node.

    Attributes:
        to: the ID of the other card.
        kind: the vendor's term for the link (NVLink, XGMI…).
        count: the number of links of this kind between the two cards.
    """

    to: str
    kind: str
    count: int = 1


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """One card, as the node agent reports it.

    Attributes:
        id: the UUID, or otherwise the location and device ID.
        memory_bytes: the memory of the card; None if it could not be read. Unknown memory cannot be shared, but the
            card can be assigned as a whole.
        reserved_bytes: the part of the memory that the driver and firmware reserve.
        numa: the NUMA node; None if unknown.
        pci_root: the PCI root complex, such as `pci0000:00`; empty if unknown.
        health_reason: the reason why the card is not healthy, as a sentence; empty if it is healthy.
        index: the number that the node agent assigns to the card for users; it does not change while the node runs.
        minor: the number that the driver assigned, as in the names of device nodes; None if unknown.
        bdf: the PCI address, such as `0000:19:00.0`; empty if unknown.
        memory_source: the source of `memory_bytes` (`nvml`, `sysfs`, `dmem`, `table`, `admin`); empty if there is none.
        estimated: whether `memory_bytes` is the value for this model of card, and was not read from the card itself.
        cordoned: whether an administrator excluded the card from placement, regardless of its health.
        fault: the error, as recorded by the agent, that excludes the card from placement until the card is repaired;
            empty if there is none.
        enforcement: the mechanism that limits the shares of this card to their memory (`mps`, `dmem`); empty if the
            shares are advisory.
        preferred: whether the card, if it fits, is assigned before the other cards of its node; set by a label on the
            node.
        amounts: the amounts of resources that accelkit only counts, from the node's status instead of its agent.
        memory_factor: the maximum combined size of all shares, as a multiple of the card's memory. A single share never
            exceeds the card's memory.
        target: the target for which kernels for the card are compiled, such as `hip:gfx90a`. If the card does not
            report it, the value is empty, and the target is derived from the vendor and model.
        driver_version: the version of the vendor's driver, such as `550.54.14`; empty if it is unknown, as for most
            drivers in the kernel.
        nic: the letter of the `Nearness` of the nearest network card; empty if there is none or the proximity is
            unknown.
    """

    id: str
    vendor: str
    model: str
    memory_bytes: int | None
    reserved_bytes: int = 0
    numa: int | None = None
    pci_root: str = ""
    links: tuple[Link, ...] = ()
    health: Health = Health.HEALTHY
    health_reason: str = ""
    index: int | None = None
    minor: int | None = None
    bdf: str = ""
    memory_source: str = ""
    estimated: bool = False
    cordoned: bool = False
    enforcement: str = ""
    fault: str = ""
    amounts: Amounts = ()
    preferred: bool = False
    memory_factor: float = 1.0
    target: str = ""
    driver_version: str = ""
    nic: str = ""

    @property
    def placeable(self) -> bool:
        """Whether the card accepts new shares."""
        return self.health is not Health.UNHEALTHY and not self.cordoned

    @property
    def number(self) -> int | None:
        """The number that other systems use for the card: the driver's number, or else the node agent's number."""
        return self.index if self.minor is None else self.minor

    @property
    def capacity_bytes(self) -> int:
        """The maximum total memory of all shares, in bytes; 0 if it is unknown."""
        if self.memory_bytes is None:
            return 0
        shared = max(0, self.memory_bytes - self.reserved_bytes)
        return shared if self.memory_factor == 1 else int(shared * self.memory_factor)

    @property
    def own_bytes(self) -> int:
        """The memory minus the reserved part, in bytes; 0 if it is unknown."""
        return 0 if self.memory_bytes is None else max(0, self.memory_bytes - self.reserved_bytes)
