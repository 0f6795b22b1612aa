"""Creation and publication of reports about the caches on the node."""
