"""Nodes with cards, as drivers see them."""

from __future__ import annotations

from typing import Any

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode, convert_node
from accelkit.kube.views.node import SystemNode
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX, INVENTORY_ANNOTATION
from accelkit.vendors.profiles import load_profiles

KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
OTHER = "5.14.0-503.11.1.el9_5.x86_64"
RHEL = "Red Hat Enterprise Linux 9.4 (Plow)"


def build_card(
    number: int = 0, *, vendor: str = "nvidia", driver: str = "", health: Health = Health.HEALTHY, reason: str = ""
) -> Card:
    return Card(
        id=f"card-{number}",
        vendor=vendor,
        model="NVIDIA H100 80GB HBM3",
        memory_bytes=2**36,
        driver_version=driver,
        health=health,
        health_reason=reason,
    )


def write_node(
    name: str,
    *,
    kernel: str = KERNEL,
    os_image: str = RHEL,
    ready: str = "True",
    cordoned: bool = False,
    cards: tuple[Card, ...] | None = None,
    vendors: tuple[str, ...] = ("nvidia",),
    recorded: str | None = None,
    kubelet: str = "v1.34.4",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A Node as the API server has it."""
    presence = {load_profiles()[vendor].presence_labels[0]: "true" for vendor in vendors}
    inventory = {} if cards is None else {INVENTORY_ANNOTATION: encode_inventory(Inventory(2**30, cards))}
    return {
        "metadata": {
            "name": name,
            "labels": presence
            | (labels or {})
            | (
                {
                    DRIVER_KERNEL_LABEL: recorded,
                    **{f"{DRIVER_VENDOR_LABEL_PREFIX}{vendor}": "true" for vendor in vendors},
                }
                if recorded
                else {}
            ),
            "annotations": inventory | (annotations or {}),
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}] if ready else [],
            "nodeInfo": {
                "kernelVersion": kernel,
                "osImage": os_image,
                "architecture": "amd64",
                "kubeletVersion": kubelet,
                "bootID": "boot-1",
            },
        },
    }


def build_node(name: str, **changed: Any) -> DriverNode:
    written = msgspec.convert(write_node(name, **changed), SystemNode)
    return convert_node(written, load_profiles())
