"""The data in Node objects that accelkit owns: labels, annotations, and the resources of its device plugin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from accelkit.install.agent_labels import find_foreign_labels, find_removable_labels
from accelkit.model.keys import (
    ADVERTISED_ANNOTATION,
    FOREIGN_LABELS_ANNOTATION,
    FORMER_UNIT_ANNOTATION,
    FREED_AT_ANNOTATION,
    INVENTORY_ANNOTATION,
    LABELS_ANNOTATION,
    REPAIRED_ANNOTATION,
    SHARE_LABEL,
    SHARED,
    SHARED_AS_ANNOTATION,
    STAGES_ANNOTATION,
)
from accelkit.model.pod import Node
from accelkit.vendors.advertised import read_advertised
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_own_dialect

TABLES: Final = ("capacity", "allocatable")

_ANNOTATIONS: Final = (
    *(
        INVENTORY_ANNOTATION,
        LABELS_ANNOTATION,
        SHARED_AS_ANNOTATION,
        FORMER_UNIT_ANNOTATION,
        FREED_AT_ANNOTATION,
        STAGES_ANNOTATION,
    ),
    *(REPAIRED_ANNOTATION, FOREIGN_LABELS_ANNOTATION),
)


def read_share_label(node: Node) -> str | None:
    """Return the value of a node's share label; None if the label is missing."""
    return (node.metadata.labels or {}).get(SHARE_LABEL)


class OwnedMetadata:
    """The data that accelkit owns on nodes that advertise the resources of a dialect.

    Args:
        dialect: the dialect that the node agents serve.
        keep: the names of nodes that remain shared. On these nodes, accelkit owns only the data of former dialects.
    """

    def __init__(self, dialect: Dialect, keep: Collection[str] = ()) -> None:
        self._label = dialect.node_label
        self._keep = frozenset(keep)
        self.resources = (dialect.resources.memory, dialect.resources.cards)
        native = load_own_dialect("native").resources
        self._native = (native.memory, native.cards)

    def find_missing(self, node: Node, former: Collection[str] = ()) -> dict[str, dict[str, str]]:
        """Return the metadata that is missing from a shared node; empty if the metadata is complete.

        Args:
            node: the current state of the node.
            former: the resources that agents advertise on other nodes. An agent may start on this node before it is
                updated, and then advertises these resources.
        """
        missing: dict[str, dict[str, str]] = {}
        if read_share_label(node) != SHARED:
            missing["labels"] = {SHARE_LABEL: SHARED}
            if node.find_annotation(FOREIGN_LABELS_ANNOTATION) is None:
                missing["annotations"] = {FOREIGN_LABELS_ANNOTATION: find_foreign_labels(node)}
        if self._label and self._label not in (node.metadata.labels or {}):
            missing.setdefault("labels", {})[self._label] = "true"
            missing.setdefault("annotations", {})[SHARED_AS_ANNOTATION] = self._label
        advertised = read_advertised(node)
        foreign = {*self.resources, *(former if read_share_label(node) != SHARED else ())} - {*self._native}
        if foreign - advertised:
            missing.setdefault("annotations", {})[ADVERTISED_ANNOTATION] = ",".join(sorted(foreign | advertised))
        return missing

    def find(self, node: Node) -> dict[str, dict[str, str]]:
        """Return all data that accelkit owns on a node, grouped by field, for a diff."""
        owned = {
            "labels": self._find_labels(node),
            # The diff contains the sizes of annotations, because up to 64 KiB of JSON on one line would be unreadable.
            "annotations": {
                key: f"{len(node.find_annotation(key) or '')} bytes" for key in self._find_annotations(node)
            },
            **{table: self.find_resources(node, table) for table in TABLES},
        }
        return {kind: values for kind, values in owned.items() if values}

    def build_removal(self, node: Node) -> dict[str, dict[str, str | None]]:
        """Return the metadata merge patch that removes accelkit's labels and annotations.

        The annotation with the names of advertised resources is retained until the node no longer has these resources.
        """
        annotations = self._find_annotations(node)
        if ADVERTISED_ANNOTATION in annotations and any(self.find_resources(node, table) for table in TABLES):
            del annotations[ADVERTISED_ANNOTATION]
        return {"labels": dict.fromkeys(self._find_labels(node)), "annotations": annotations}

    def find_resources(self, node: Node, table: str) -> dict[str, str]:
        """Return accelkit's resources in the capacity or the allocatable resources of a node."""
        quantities: Mapping[str, str] = getattr(node.status, table) or {}
        names = {*self._native, *read_advertised(node)}
        if node.metadata.name in self._keep:
            names -= set(self.resources)
        return {name: quantities[name] for name in sorted(names) if name in quantities}

    def _find_annotations(self, node: Node) -> dict[str, str | None]:
        """Return the new values of accelkit's annotations; None for annotations to remove."""
        kept = node.metadata.name in self._keep
        present: dict[str, str | None] = {}
        if not kept:
            present = {key: None for key in _ANNOTATIONS if node.find_annotation(key) is not None}
        elif node.find_annotation(SHARED_AS_ANNOTATION) not in {None, self._label}:
            present = {SHARED_AS_ANNOTATION: None}
        advertised = read_advertised(node)
        still = advertised & set(self.resources) if kept else set()
        if advertised != still:
            present[ADVERTISED_ANNOTATION] = ",".join(sorted(still)) or None
        return present

    def _find_labels(self, node: Node) -> dict[str, str]:
        present = node.metadata.labels or {}
        former = node.find_annotation(SHARED_AS_ANNOTATION) or ""
        if node.metadata.name in self._keep:
            return {former: present[former]} if former in present and former != self._label else {}
        owned = {former: present[former]} if former in present else {}
        # A user or another controller has set a different value.
        shared = {SHARE_LABEL: SHARED} if read_share_label(node) == SHARED else {}
        return find_removable_labels(node) | shared | owned
