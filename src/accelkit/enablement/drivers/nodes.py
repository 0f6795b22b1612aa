"""Nodes with driver-related data: kernel, operating system, card vendors, and conditions that block changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.enablement.drivers.reasons import Obstacle
from accelkit.enablement.drivers.systems import System, read_system
from accelkit.kube.views.node import SystemNode
from accelkit.model.card import Card
from accelkit.model.inventory import read_inventory
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX, INVENTORY_ANNOTATION
from accelkit.vendors.profiles import Profile

# A kubelet can report any kernel release, and the release becomes part of the arguments of an image builder, which has
# access to the registry password.
_KERNEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_~-]{0,127}")


class DriverNode(msgspec.Struct, frozen=True):
    """A node with driver-related data.

    Attributes:
        name: the name of the Node.
        kernel: the release of the running kernel; empty if it is unknown or invalid.
        system: the operating system of the node.
        architecture: for example `amd64`.
        kubelet: the version of the kubelet, for example `v1.34.4`.
        boot_id: the boot ID of the running kernel.
        ready: the status of the condition Ready; None if it is unknown.
        unschedulable: whether the node is cordoned.
        vendors: the vendors of the node's cards, sorted; from the inventory and from labels that Node Feature Discovery
            and the vendors' tools write.
        cards: the cards in the inventory; None if the inventory is missing or unreadable.
        labels: the labels of the Node.
        annotations: the annotations of the Node.
        resource_version: the resource version of the Node when it was read.
    """

    name: str
    kernel: str = ""
    system: System = System()
    architecture: str = ""
    kubelet: str = ""
    boot_id: str = ""
    ready: bool | None = None
    unschedulable: bool = False
    vendors: tuple[str, ...] = ()
    cards: tuple[Card, ...] | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resource_version: str = ""

    @property
    def obstacle(self) -> Obstacle | None:
        """The condition that blocks changes on this node; None if there is no such condition."""
        if self.ready is not True:
            return "NodeNotReady"
        if self.unschedulable:
            return "NodeCordoned"
        return None if self.kernel else "KernelUnknown"

    @property
    def recorded(self) -> dict[str, str]:
        """The labels that driver DaemonSets use to select the node."""
        ours = (key for key in self.labels if key == DRIVER_KERNEL_LABEL or key.startswith(DRIVER_VENDOR_LABEL_PREFIX))
        return {key: self.labels[key] for key in sorted(ours)}

    def list_drivers(self, vendor: str) -> tuple[str, ...]:
        """Return the driver versions that a vendor's cards report, sorted; `""` for a card without a version."""
        return tuple(sorted({card.driver_version for card in self.cards or () if card.vendor == vendor}))


def convert_node(node: SystemNode, profiles: Mapping[str, Profile]) -> DriverNode:
    """Return a node with driver-related data. If the inventory is unreadable, only labels specify the vendors."""
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    info = node.status.node_info
    inventory = read_inventory(annotations.get(INVENTORY_ANNOTATION))
    cards = None if inventory is None else inventory.cards
    ready = next((each.status for each in node.status.conditions or () if each.type == "Ready"), "")
    return DriverNode(
        name=node.metadata.name,
        kernel=info.kernel_version if _KERNEL.fullmatch(info.kernel_version) else "",
        system=read_system(info.os_image, labels),
        architecture=info.architecture,
        kubelet=info.kubelet_version,
        boot_id=info.boot_id,
        ready={"True": True, "False": False}.get(ready),
        unschedulable=node.spec.unschedulable,
        vendors=_find_vendors(cards, labels, profiles),
        cards=cards,
        labels=labels,
        annotations=annotations,
        resource_version=node.metadata.resource_version,
    )


def select_nodes(nodes: Iterable[DriverNode], selector: Mapping[str, str]) -> list[DriverNode]:
    """Return the nodes that have all these labels."""
    return [node for node in nodes if all(node.labels.get(key) == value for key, value in selector.items())]


def _find_vendors(
    cards: tuple[Card, ...] | None, labels: Mapping[str, str], profiles: Mapping[str, Profile]
) -> tuple[str, ...]:
    # Cards without a driver may be missing from the inventory, so their vendors are read from labels.
    of_cards = {card.vendor for card in cards or ()}
    labelled = {
        name
        for name, profile in profiles.items()
        if any(labels.get(label) == "true" for label in profile.presence_labels)
    }
    return tuple(sorted(of_cards | labelled))
