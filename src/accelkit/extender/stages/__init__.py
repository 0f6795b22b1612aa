"""Results of the enablement stages on the nodes, from the watch of nodes, for metrics."""
