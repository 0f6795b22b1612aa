"""Reads the record of the labels that we wrote on a node, by which they are removed: `accelkit.io/labels`."""

from __future__ import annotations

import msgspec

from accelkit.model.keys import LABELS_ANNOTATION
from accelkit.model.pod import Node

_record = msgspec.json.Decoder(dict[str, str])


def read_label_record(node: Node) -> dict[str, str]:
    """Return the labels that we wrote, with the values we gave them; none where the record cannot be read."""
    try:
        return _record.decode(node.find_annotation(LABELS_ANNOTATION) or "{}")
    except (msgspec.MsgspecError, RecursionError):
        # Without it nothing is known to be ours, so nothing is touched.
        return {}


def find_owned_labels(node: Node) -> dict[str, str]:
    """Return the labels of the node that are still as we wrote them."""
    present = node.metadata.labels or {}
    return {key: value for key, value in read_label_record(node).items() if present.get(key) == value}
