"""Discovery of PCI cards in sysfs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accelkit.model.card import MAX_CARD_ID, Card, Link
from accelkit.node.discovery.card_facts import read_identity, read_memory, read_minor, read_model, read_render
from accelkit.node.discovery.card_sources import Device
from accelkit.node.discovery.driver_version import read_driver_version
from accelkit.node.discovery.fabric_links import find_fabric_links
from accelkit.node.discovery.files.nodes_file import apply_nodes_file
from accelkit.node.discovery.files.overrides import Override
from accelkit.node.discovery.found_card import FoundCard
from accelkit.node.discovery.host import Host
from accelkit.node.discovery.partitions import find_kfd_partitions, find_mig_partitions
from accelkit.node.discovery.sysfs import list_entries, read_hex, read_integer, read_key_values
from accelkit.vendors.profiles import PciDiscovery, Profile

_DEVICES = "sys/bus/pci/devices"
_PCI_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
# A card ID contains only characters that the kubelet accepts in device IDs, but not accelkit's separator `::`.
_CARD_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]|:(?!:))*")


@dataclass(frozen=True, slots=True)
class _PciCard:
    device: Device
    profile: Profile
    driver: str | None
    uuid: str | None

    @property
    def place(self) -> str:
        """The PCI address, followed by the key of the part if the card is a part."""
        part = self.device.partition
        return self.device.bdf if part is None else f"{self.device.bdf}-{part.key}"


def find_pci(host: Host, profiles: Sequence[Profile], first_index: int) -> list[FoundCard]:
    """Return the cards that match these profiles, in the order of their PCI addresses, numbered from `first_index`.

    Raises:
        DevicePluginError: a required file of a device cannot be read.
    """
    cards = [
        part
        for folder in list_entries(host.root / _DEVICES)
        for profile in profiles
        if (device := _read_device(folder, profile, host)) is not None
        for part in _split(device)
    ]
    # Cards with the same serial number are distinguished by their PCI addresses.
    uuids = Counter(each.uuid for each in cards)
    ids = {each.place: _name_card(each, host.machine, alone=uuids[each.uuid] == 1) for each in cards}
    links = find_fabric_links(ids, {each.place: each.device.nvml for each in cards if each.device.nvml}, host.kfd)
    named = {each.profile.name: each.profile for each in cards}
    named = {name: apply_nodes_file(host.root, profile) for name, profile in named.items()}
    return [
        FoundCard(
            _build_card(each, host, ids[each.place], links[each.place], index),
            index,
            read_minor(each.device),
            named[each.profile.name],
            render=read_render(each.device),
            # The parts of an AMD card have the same name in the vendor's tools, so the name does not identify a part.
            uuid=None if each.device.partition and each.device.partition.kfd else each.uuid,
            device=each.device.folder,
            driver=each.driver,
            part_of=each.device.partition.part_of if each.device.partition else None,
            part_nodes=each.device.partition.nodes if each.device.partition else (),
        )
        for index, each in enumerate(cards, first_index)
    ]


def _build_card(card: _PciCard, host: Host, card_id: str, links: tuple[Link, ...], index: int) -> Card:
    device, discovery = card.device, card.device.discovery
    memory = read_memory(device)
    # Overrides by PCI address or PCI IDs apply to whole cards.
    whole = () if device.partition else (device.bdf, f"{discovery.vendor}:{device.device_id}")
    override = host.overrides.find_override(card_id, *whole)
    overridden = override.memory_bytes is not None
    return Card(
        card_id,
        card.profile.name,
        read_model(device),
        override.memory_bytes if overridden else memory.total_bytes if memory else None,
        reserved_bytes=_reserved_bytes(override, memory.reserved_bytes if memory else None, discovery),
        numa=read_numa(device.folder),
        pci_root=find_pci_root(device.folder),
        links=links,
        index=index,
        # MIG instances share the driver number of their card, so it does not identify an instance.
        minor=None if device.partition and device.partition.nvml else read_minor(device),
        bdf=device.bdf,
        memory_source="admin" if overridden else memory.source if memory else "",
        estimated=memory is not None and memory.estimated and not overridden,
        driver_version=read_driver_version(device, card.driver),
    )


def _read_device(folder: Path, profile: Profile, host: Host) -> _PciCard | None:
    discovery = profile.discovery
    if not isinstance(discovery, PciDiscovery) or read_hex(folder / "vendor") != discovery.vendor:
        return None
    driver = _read_driver(folder)
    class_id, device_id = read_hex(folder / "class"), read_hex(folder / "device")
    if class_id is None or device_id is None:
        # The device has just been removed.
        return None
    if class_id[:4] not in discovery.classes or driver in discovery.management_drivers:
        return None
    if _is_split_or_unused(folder, driver, discovery):
        return None
    device = Device(
        host,
        folder.name,
        folder,
        device_id,
        discovery,
        read_key_values(host.root / discovery.facts.format(bdf=folder.name)) if discovery.facts else {},
        host.nvml.find_card(folder.name) if host.nvml else None,
    )
    return _PciCard(device, profile, driver, read_identity(device))


def _split(card: _PciCard) -> Iterator[_PciCard]:
    """Yield the parts of a card; if it has no parts, yield the card itself."""
    host, device = card.device.host, card.device
    if amd := find_kfd_partitions(host.root, device.folder, host.kfd.get(device.bdf), card.uuid):
        for part in amd:
            # The key distinguishes the parts, because all parts have the same name in the vendor's tools.
            name = f"{card.uuid}-{part.key}" if card.uuid else None
            yield replace(card, device=replace(device, partition=part), uuid=name)
        return
    instances = find_mig_partitions(host.root, device.nvml)
    if instances is None:
        yield card
        return
    for part in instances:
        # The facts in the driver's file apply to the whole card.
        of_part = replace(device, nvml=part.nvml, facts={}, partition=part)
        yield replace(card, device=of_part, uuid=read_identity(of_part))


def _is_split_or_unused(folder: Path, driver: str | None, discovery: PciDiscovery) -> bool:
    # If a card is split into virtual functions, only these functions are offered. A virtual function without the
    # vendor's driver is reserved for a virtual machine.
    if (folder / "physfn").exists():
        return driver not in discovery.drivers
    return (read_integer(folder / "sriov_numvfs") or 0) > 0


def _name_card(card: _PciCard, machine: str | None, *, alone: bool) -> str:
    if card.uuid and alone and len(card.uuid) <= MAX_CARD_ID and _CARD_ID.fullmatch(card.uuid):
        return card.uuid
    # A card without an identity is named by its PCI address. The name of the machine makes the name unique in the
    # cluster.
    place = f"{card.place}-{card.device.device_id}"
    return f"{machine}-{place}" if machine else place


def _reserved_bytes(override: Override, measured: int | None, discovery: PciDiscovery) -> int:
    if override.reserved_bytes is not None:
        return override.reserved_bytes
    return discovery.reserved_mib * 2**20 if measured is None else measured


def _read_driver(folder: Path) -> str | None:
    link = folder / "driver"
    return link.resolve().name if link.exists() else None


def read_numa(folder: Path) -> int | None:
    """Return a device's NUMA node; None if it is unknown."""
    found = read_integer(folder / "numa_node")
    # The kernel reports -1 for an unknown node, which must not be treated as node 0.
    return None if found is None or found < 0 else found


def find_pci_root(folder: Path) -> str:
    """Return the root complex above a device, such as `pci0000:00`; empty if it is unknown."""
    return next((part for part in folder.resolve().parts if _PCI_ROOT.fullmatch(part)), "")
