"""Labels of the node's hardware, in the names of Node Feature Discovery and of the vendors."""

from accelkit.node.labels.node_labels import NodeLabels

__all__ = ["NodeLabels"]
