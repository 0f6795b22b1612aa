"""The cache agent: prepares verified kernel caches on its node, and tells what became of them."""
