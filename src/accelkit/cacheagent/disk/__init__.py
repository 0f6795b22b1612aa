"""The folder of caches on the node, its links, and what has to be remembered over a restart."""
