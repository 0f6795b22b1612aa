"""The folder of caches on the node, its links, and the state that must survive a restart."""
