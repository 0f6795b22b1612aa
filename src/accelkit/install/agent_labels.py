"""Labels that a node agent can write to its node, and labels that are deleted when accelkit is removed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from accelkit.install.guarded_keys import list_guarded_keys
from accelkit.model.keys import CARD_LABEL_PREFIX, FOREIGN_LABELS_ANNOTATION
from accelkit.model.label_record import find_owned_labels, read_label_record
from accelkit.model.pod import Node
from accelkit.node.labels.sources import FEATURE

# The annotation in which Node Feature Discovery lists its labels, without its own prefix.
_NFD_ANNOTATION: Final = "nfd.node.kubernetes.io/feature-labels"


def find_foreign_labels(node: Node) -> str:
    """Return the value of the annotation that prevents the removal of labels from other clients."""
    ours = find_owned_labels(node)
    return ",".join(
        key for key in sorted(_list_writable(node)) if not (key in ours or key.startswith(CARD_LABEL_PREFIX))
    )


def find_removable_labels(node: Node) -> dict[str, str]:
    """Return the labels to remove when the node is no longer shared.

    The result contains recorded labels, and labels that a client with a stolen token may have added without recording
    them. The latter are labels with accelkit's prefix and, if the labels from other clients are known for the node,
    labels with other writable keys. A recorded label with a different value belongs to another client. Labels that an
    agent cannot write are ignored, even if they are recorded.
    """
    recorded, foreign = find_owned_labels(node), node.find_annotation(FOREIGN_LABELS_ANNOTATION)
    others = {*(foreign or "").split(","), *_list_of_nfd(node), *read_label_record(node)}
    return {
        key: value
        for key, value in _list_writable(node).items()
        if key in recorded or key.startswith(CARD_LABEL_PREFIX) or (foreign is not None and key not in others)
    }


def _list_writable(node: Node) -> Mapping[str, str]:
    return {key: value for key, value in (node.metadata.labels or {}).items() if _is_writable(key)}


def _list_of_nfd(node: Node) -> set[str]:
    names = (node.find_annotation(_NFD_ANNOTATION) or "").split(",")
    return {name if "/" in name else f"{FEATURE}{name}" for name in names}


def _is_writable(key: str) -> bool:
    prefixes, keys = _load()
    return key.startswith(prefixes) or key.rstrip("0123456789") in keys or key in keys


@cache
def _load() -> tuple[tuple[str, ...], frozenset[str]]:
    guarded = list_guarded_keys()
    return guarded.node_label_prefixes, frozenset(guarded.node_labels)
