"""Finds the cards of a host, from files below a root that tests and containers may move."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card, Health
from accelkit.vendors.profiles import FileDiscovery, PciDiscovery, Profile

_PCI_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card, with what a container needs to reach it.

    Attributes:
        index: the node's own numbering over all cards.
        minor: the driver's number in device node names.
    """

    card: Card
    index: int
    minor: int
    profile: Profile


class _ListedCard(msgspec.Struct):
    id: str
    model: str
    memory_bytes: int
    index: int
    numa: int | None = None
    health: Health = Health.HEALTHY


class _ListedCards(msgspec.Struct):
    cards: list[_ListedCard]


def discover(root: Path, profiles: Iterable[Profile]) -> list[FoundCard]:
    """Return the cards of all profiles, numbered in a stable order.

    Raises:
        DevicePluginError: a file that must be readable is not.
    """
    found: list[FoundCard] = []
    for profile in profiles:
        if isinstance(profile.discovery, FileDiscovery):
            found += _from_file(root, profile, profile.discovery)
        else:
            found += _from_pci(root, profile, profile.discovery, len(found))
    return found


def _from_file(root: Path, profile: Profile, discovery: FileDiscovery) -> list[FoundCard]:
    path = root / discovery.path
    try:
        listed = msgspec.json.decode(path.read_bytes(), type=_ListedCards).cards
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise DevicePluginError(f"the list of cards {path} cannot be read: {exc}") from exc
    return [
        FoundCard(
            Card(card.id, profile.name, card.model, card.memory_bytes, numa=card.numa, health=card.health),
            card.index,
            card.index,
            profile,
        )
        for card in listed
    ]


def _from_pci(root: Path, profile: Profile, discovery: PciDiscovery, first_index: int) -> list[FoundCard]:
    found: list[FoundCard] = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _hex(device / "vendor") != discovery.vendor or _hex(device / "class")[:4] not in discovery.classes:
            continue
        index = first_index + len(found)
        facts = _facts(root / discovery.facts.path.format(bdf=device.name))
        device_id = _hex(device / "device")
        mib = discovery.memory_mib.get(device_id)
        minor = facts.get(discovery.facts.minor, "")
        card = Card(
            # Without the driver's identity the location is the best there is.
            facts.get(discovery.facts.identity) or f"{device.name}-{device_id}",
            profile.name,
            facts.get(discovery.facts.model) or f"{discovery.vendor}:{device_id}",
            None if mib is None else mib * 2**20,
            numa=_numa(device / "numa_node"),
            pci_root=_pci_root(device),
        )
        found.append(FoundCard(card, index, int(minor) if minor.isdigit() else index, profile))
    return found


def _hex(path: Path) -> str:
    try:
        return path.read_text().strip().removeprefix("0x").lower()
    except FileNotFoundError:
        # The device has just gone.
        return ""
    except OSError as exc:
        raise DevicePluginError(f"{path} cannot be read: {exc.strerror}") from exc


def _facts(path: Path) -> Mapping[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, found, value in (line.partition(":") for line in lines) if found}


def _numa(path: Path) -> int | None:
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return None
    # The kernel writes -1 for unknown, which is not node 0.
    return None if number < 0 else number


def _pci_root(device: Path) -> str:
    for part in device.resolve().parts:
        if _PCI_ROOT.fullmatch(part):
            return part
    return ""
