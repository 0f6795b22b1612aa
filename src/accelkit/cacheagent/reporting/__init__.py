"""Reports about the caches of the node, and their publication."""
