"""Labels of the node that say what it has, in the names of Node Feature Discovery and of the vendors."""

from accelkit.node.labels.node_labels import NodeLabels

__all__ = ["NodeLabels"]
