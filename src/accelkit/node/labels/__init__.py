"""Labels for the node's hardware, with the label names that Node Feature Discovery and the vendors use."""

from accelkit.node.labels.node_labels import NodeLabels

__all__ = ["NodeLabels"]
