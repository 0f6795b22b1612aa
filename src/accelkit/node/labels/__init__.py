"""Labels for the node's hardware, with the label names of Node Feature Discovery and of the vendors."""

from accelkit.node.labels.node_labels import NodeLabels

__all__ = ["NodeLabels"]
