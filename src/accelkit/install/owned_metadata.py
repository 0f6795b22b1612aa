"""The parts of a Node that accelkit owns: labels, annotations, and the resources of its device plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accelkit.model.inventory import FREED_AT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.label_record import LABELS_ANNOTATION, find_owned_labels
from accelkit.model.pod import Node
from accelkit.vendors.dialects import Dialect, load_dialect

SHARE_LABEL: Final = "accelkit.io/share"
TABLES: Final = ("capacity", "allocatable")
# The label of another system that we have set on the node; one that was there before is not ours to remove.
SHARED_AS: Final = "accelkit.io/shared-as"

_ANNOTATIONS: Final = (INVENTORY_ANNOTATION, LABELS_ANNOTATION, SHARED_AS, FREED_AT_ANNOTATION)


def read_share_label(node: Node) -> str | None:
    """Return the value of the node's share label, None where it has none."""
    return (node.metadata.labels or {}).get(SHARE_LABEL)


class OwnedMetadata:
    """What accelkit owns on nodes that advertise a dialect's resources.

    Args:
        dialect: the one that the node agents serve.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._label = dialect.node_label
        self.resources = (dialect.resources.memory, dialect.resources.cards)
        native = load_dialect("native").resources
        self._all_resources = tuple(dict.fromkeys((*self.resources, native.memory, native.cards)))

    def find_missing(self, node: Node) -> dict[str, dict[str, str]]:
        """Return the metadata that a shared node lacks; empty where it lacks none."""
        missing: dict[str, dict[str, str]] = {}
        if read_share_label(node) != "true":
            missing["labels"] = {SHARE_LABEL: "true"}
        if self._label and self._label not in (node.metadata.labels or {}):
            missing.setdefault("labels", {})[self._label] = "true"
            missing["annotations"] = {SHARED_AS: self._label}
        return missing

    def find(self, node: Node) -> dict[str, dict[str, str]]:
        """Return all that accelkit owns on a node, by table, for people to compare."""
        owned = {
            "labels": self._find_labels(node),
            # Its size stands for it: up to 64 KiB of JSON on one line is nothing to read in a diff.
            "annotations": {
                key: f"{len(text)} bytes" for key in _ANNOTATIONS if (text := node.find_annotation(key)) is not None
            },
            **{table: self.find_resources(node, table) for table in TABLES},
        }
        return {kind: values for kind, values in owned.items() if values}

    def build_removal(self, node: Node) -> Mapping[str, Any]:
        """Return the merge patch of metadata that removes our labels and annotations."""
        return {
            "labels": dict.fromkeys([SHARE_LABEL, *self._find_labels(node)]),
            "annotations": dict.fromkeys(_ANNOTATIONS),
        }

    def find_resources(self, node: Node, table: str) -> dict[str, str]:
        """Return our resources in the node's capacity or allocatable."""
        quantities: Mapping[str, str] = getattr(node.status, table) or {}
        return {name: quantities[name] for name in self._all_resources if name in quantities}

    def _find_labels(self, node: Node) -> dict[str, str]:
        present = node.metadata.labels or {}
        keys = [SHARE_LABEL, node.find_annotation(SHARED_AS) or ""]
        return find_owned_labels(node) | {key: present[key] for key in keys if key in present}
