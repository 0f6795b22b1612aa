"""Resources that accelkit's node agents advertise on a node, and a check of whether the kubelet offers any of them."""

from __future__ import annotations

from functools import cache

from accelkit.model.keys import ADVERTISED_ANNOTATION
from accelkit.model.pod import Node
from accelkit.vendors.dialects import load_own_dialect, load_usable_dialects


def read_advertised(node: Node) -> set[str]:
    """Return the resources from other systems that accelkit's agents advertise, or have advertised, on a node.

    A kubelet can change the annotation on its own node, so names that no agent can advertise are ignored.
    """
    return set((node.find_annotation(ADVERTISED_ANNOTATION) or "").split(",")) & _list_advertisable()


def gives_any(node: Node) -> bool:
    """Return whether the node has an allocatable amount of a resource that accelkit's agents advertise."""
    allocatable = node.status.allocatable or {}
    native = load_own_dialect("native").resources
    return any(allocatable.get(name, "0") != "0" for name in (native.memory, native.cards, *read_advertised(node)))


@cache
def _list_advertisable() -> frozenset[str]:
    # A broken dialect from another distribution must not affect clusters that do not use the dialect.
    advertised = (each.resources for each in load_usable_dialects() if each.advertised)
    return frozenset(name for resources in advertised for name in (resources.memory, resources.cards))
