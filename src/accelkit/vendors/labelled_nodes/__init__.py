"""Cards in labels and status of nodes, in the formats of other systems."""
