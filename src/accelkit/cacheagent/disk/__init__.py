"""Store of caches on the node, with its links and the state that survives a restart."""
