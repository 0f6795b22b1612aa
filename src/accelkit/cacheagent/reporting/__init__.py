"""What became of each cache on the node, and how that is told to the cluster."""
