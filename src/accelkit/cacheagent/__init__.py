"""Cache agent, which extracts verified kernel caches on its node and publishes reports about them."""
