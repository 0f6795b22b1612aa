"""Nodes as drivers see them: kernel, system, the vendors of their cards, and whether anything may be done there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.enablement.drivers.systems import System, read_system
from accelkit.errors import InventoryError
from accelkit.model.card import Card
from accelkit.model.inventory import decode_inventory
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX, INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.vendors.profiles import Profile

# A kubelet tells it, and it ends in arguments of who builds images, with the registry's password beside them.
_KERNEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_~-]{0,127}")


class _NodeInfo(msgspec.Struct, rename="camel"):
    kernel_version: str = ""
    os_image: str = ""
    architecture: str = ""
    kubelet_version: str = ""
    boot_id: str = msgspec.field(name="bootID", default="")


class _Condition(msgspec.Struct):
    type: str
    status: str = ""


class _Status(msgspec.Struct, rename="camel"):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct):
    unschedulable: bool = False


class WrittenNode(msgspec.Struct):
    """A Node as the API server shows it, as far as it is read."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class DriverNode(msgspec.Struct, frozen=True):
    """A node.

    Attributes:
        name: of the Node.
        kernel: the release that runs; empty where nobody says, or what is said is no release.
        system: its operating system.
        architecture: as `amd64`.
        kubelet: version of its kubelet, as `v1.34.4`.
        boot_id: of the running kernel.
        ready: whether its kubelet reports, and says that it is; None where nobody says.
        unschedulable: whether somebody cordoned it.
        vendors: of its cards, sorted; by the inventory, else by labels of Node Feature Discovery and vendors' tools.
        cards: of its inventory; None where that is not there or cannot be read.
        labels: of the Node.
        annotations: of the Node.
        resource_version: of the Node, as it was read.
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
    def obstacle(self) -> str:
        """The reason for which nothing is done on this node; empty where there is none."""
        if self.ready is not True:
            return "NodeNotReady"
        if self.unschedulable:
            return "NodeCordoned"
        return "" if self.kernel else "KernelUnknown"

    @property
    def recorded(self) -> dict[str, str]:
        """The labels by which DaemonSets of drivers find the node."""
        ours = (key for key in self.labels if key == DRIVER_KERNEL_LABEL or key.startswith(DRIVER_VENDOR_LABEL_PREFIX))
        return {key: self.labels[key] for key in sorted(ours)}

    def list_drivers(self, vendor: str) -> tuple[str, ...]:
        """Return the versions of a vendor's driver that its cards name, sorted; `""` for a card that names none."""
        return tuple(sorted({card.driver_version for card in self.cards or () if card.vendor == vendor}))


def convert_node(node: WrittenNode, profiles: Mapping[str, Profile]) -> DriverNode:
    """Return a node as drivers see it. An inventory that cannot be read is as none: labels tell the vendors."""
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    info = node.status.node_info
    cards = _read_cards(annotations.get(INVENTORY_ANNOTATION))
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


def select_nodes(nodes: Iterable[DriverNode], wanted: Mapping[str, str]) -> list[DriverNode]:
    """Return the nodes that have all these labels."""
    return [node for node in nodes if all(node.labels.get(key) == value for key, value in wanted.items())]


def _read_cards(text: str | None) -> tuple[Card, ...] | None:
    try:
        return None if text is None else decode_inventory(text).cards
    except InventoryError:
        return None


def _find_vendors(
    cards: tuple[Card, ...] | None, labels: Mapping[str, str], profiles: Mapping[str, Profile]
) -> tuple[str, ...]:
    # A card without a driver may be in no inventory, so that its vendor is known by labels alone.
    of_cards = {card.vendor for card in cards or ()}
    labelled = {
        name
        for name, profile in profiles.items()
        if any(labels.get(label) == "true" for label in profile.presence_labels)
    }
    return tuple(sorted(of_cards | labelled))
