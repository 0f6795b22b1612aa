"""The cache agent: it prepares verified kernel caches on its node and publishes reports about them."""
