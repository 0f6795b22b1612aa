"""What of a Node object is ours: labels, annotations, and the resources that its kubelet offers for us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from accelkit.model.inventory import FREED_AT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.label_record import LABELS_ANNOTATION, find_owned_labels
from accelkit.model.pod import Node
from accelkit.vendors.dialects import Dialect, load_dialect

SHARE_LABEL: Final = "accelkit.io/share"
TABLES: Final = ("capacity", "allocatable")
# The label of another system that we put on the node: one that was there before is not ours to take off.
SHARED_AS: Final = "accelkit.io/shared-as"

_ANNOTATIONS: Final = (INVENTORY_ANNOTATION, LABELS_ANNOTATION, SHARED_AS, FREED_AT_ANNOTATION)


def share_label(node: Node) -> str | None:
    """Return what the node's label says of sharing, None where it has none."""
    return (node.metadata.labels or {}).get(SHARE_LABEL)


class Marks:
    """What is ours where nodes advertise a dialect's resources.

    Args:
        dialect: the one that the node agents serve.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._label = dialect.node_label
        self.resources = (dialect.resources.memory, dialect.resources.cards)
        native = load_dialect("native").resources
        self._all_resources = tuple(dict.fromkeys((*self.resources, native.memory, native.cards)))

    def sharing(self, node: Node) -> dict[str, dict[str, str]]:
        """Return the metadata that a shared node lacks; empty where it lacks none."""
        lacks: dict[str, dict[str, str]] = {}
        if share_label(node) != "true":
            lacks["labels"] = {SHARE_LABEL: "true"}
        if self._label and self._label not in (node.metadata.labels or {}):
            lacks.setdefault("labels", {})[self._label] = "true"
            lacks["annotations"] = {SHARED_AS: self._label}
        return lacks

    def of(self, node: Node) -> dict[str, dict[str, str]]:
        """Return all that is ours on a node, for people to compare."""
        marks = {
            "labels": self._labels(node),
            # Its size stands for it: up to 64 KiB of JSON on one line is nothing to read in a diff.
            "annotations": {
                key: f"{len(text)} bytes" for key in _ANNOTATIONS if (text := node.annotation(key)) is not None
            },
            **{table: self.offered(node, table) for table in TABLES},
        }
        return {kind: values for kind, values in marks.items() if values}

    def clearing(self, node: Node) -> Mapping[str, Any]:
        """Return the merge patch of metadata that takes our labels and annotations off."""
        return {"labels": dict.fromkeys([SHARE_LABEL, *self._labels(node)]), "annotations": dict.fromkeys(_ANNOTATIONS)}

    def offered(self, node: Node, table: str) -> dict[str, str]:
        """Return our resources in the node's capacity or allocatable."""
        held: Mapping[str, str] = getattr(node.status, table) or {}
        return {name: held[name] for name in self._all_resources if name in held}

    def _labels(self, node: Node) -> dict[str, str]:
        present = node.metadata.labels or {}
        keys = [SHARE_LABEL, node.annotation(SHARED_AS) or ""]
        return find_owned_labels(node) | {key: present[key] for key in keys if key in present}
