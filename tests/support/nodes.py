"""Factories of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.pod import Node
from support.pods import Json


def build_node(
    name: str = "n",
    inventory: Inventory | str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    allocatable: Mapping[str, Any] | None = None,
) -> Json:
    """Return a node as the API server sends it; its agent has published the inventory, unless that is empty."""
    text = encode_inventory(inventory) if isinstance(inventory, Inventory) else inventory
    written = {**(annotations or {}), **({INVENTORY_ANNOTATION: text} if text else {})}
    metadata = {"name": name, "labels": dict(labels or {}), "annotations": written}
    return {"metadata": metadata, "spec": dict(spec or {}), "status": {"allocatable": dict(allocatable or {})}}


def read_node(name: str = "n", inventory: Inventory | str | None = None, **more: Any) -> Node:
    """Return a node as a service reads it."""
    return msgspec.convert(build_node(name, inventory, **more), Node)
