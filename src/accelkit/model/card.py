"""A card: one physical accelerator of a node, with an identity that survives reboot."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from accelkit.model.amounts import Amounts

# The kubelet takes device IDs of up to 63 characters, of which the number of a unit needs some.
MAX_CARD_ID = 48
# Beyond it a factor is a mistake.
MAX_MEMORY_FACTOR = 16.0
# What a card may say of itself: BACKEND:ARCH, as `cuda:75` or `hip:gfx90a:xnack-`.
TARGET_PATTERN = r"^([a-z][a-z0-9_-]{0,15}:[A-Za-z0-9][A-Za-z0-9_.:+-]{0,47})?$"

MAX_DRIVER_VERSION = 48


class Health(StrEnum):
    """What is known of a card. UNKNOWN is not UNHEALTHY: it takes new shares."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=False, omit_defaults=True):
    """A direct connection to another card of the node.

    Attributes:
        to: the other card's id.
        kind: the vendor's word (NVLink, XGMI…).
        count: how many of that kind run side by side between the two.
    """

    to: str
    kind: str
    count: int = 1


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """One card as the node agent reports it.

    Attributes:
        id: UUID, else location and device id.
        memory_bytes: what the card has; None when it could not be read. Unknown memory cannot be shared, but the card
            can be given whole.
        reserved_bytes: what driver and firmware keep of it.
        numa: NUMA node, None when unknown.
        pci_root: PCI root complex as `pci0000:00`, empty when unknown.
        health_reason: why the card is not healthy, as a sentence; empty where it is.
        index: the node's own number for the card, which users see; it stays while the node runs.
        minor: the driver's number, as in the names of device nodes; None when unknown.
        bdf: PCI address as `0000:19:00.0`, empty when unknown.
        memory_source: what said how much memory there is (`nvml`, `sysfs`, `dmem`, `table`, `admin`); empty if nothing.
        estimated: whether that source knows the kind of card only, not this one.
        cordoned: taken out of placement by somebody, whatever its health.
        fault: what took it out of placement until it is mended, for the agent to remember; empty for nothing.
        enforcement: what keeps shares of this card within their memory (`mps`, `dmem`); empty where they are advisory.
        preferred: to be taken before the other cards of its node, where it fits; a label of the node says so.
        amounts: what it has of resources that are numbers and nothing else; its node's status says it, not its agent.
        memory_factor: how many times its memory all shares together may take; no single one takes more than it has.
        target: what kernels for it are compiled for, as `hip:gfx90a`, where the card itself says so; empty where vendor
            and model tell.
        driver_version: of its vendor's driver, as `550.54.14`; empty when unknown, as that of most drivers which come
            with the kernel.
        nic: letter of the `Nearness` of the nearest network card; empty where none is there, or nobody can tell.
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
        """Whether new shares may go on it."""
        return self.health is not Health.UNHEALTHY and not self.cordoned

    @property
    def number(self) -> int | None:
        """The number by which other systems know the card: the driver's, else the node's own."""
        return self.index if self.minor is None else self.minor

    @property
    def capacity_bytes(self) -> int:
        """What all shares together may take, in bytes: 0 where the memory is unknown."""
        if self.memory_bytes is None:
            return 0
        shared = max(0, self.memory_bytes - self.reserved_bytes)
        return shared if self.memory_factor == 1 else int(shared * self.memory_factor)

    @property
    def own_bytes(self) -> int:
        """What it has for those who hold it, in bytes: 0 where the memory is unknown."""
        return 0 if self.memory_bytes is None else max(0, self.memory_bytes - self.reserved_bytes)
