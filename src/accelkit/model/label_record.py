"""The annotation `accelkit.io/labels`, which records the labels on a node that accelkit wrote and can remove."""

from __future__ import annotations

import msgspec

from accelkit.model.keys import LABELS_ANNOTATION
from accelkit.model.pod import Node

_record = msgspec.json.Decoder(dict[str, str])


def read_label_record(node: Node) -> dict[str, str]:
    """Return the labels that accelkit wrote, with their values; empty if the record cannot be read."""
    try:
        return _record.decode(node.find_annotation(LABELS_ANNOTATION) or "{}")
    except (msgspec.MsgspecError, RecursionError):
        # Without the record, the owner of each label is unknown, so no label is changed.
        return {}


def find_owned_labels(node: Node) -> dict[str, str]:
    """Return the labels of the node that still have the values that accelkit wrote."""
    present = node.metadata.labels or {}
    return {key: value for key, value in read_label_record(node).items() if present.get(key) == value}
