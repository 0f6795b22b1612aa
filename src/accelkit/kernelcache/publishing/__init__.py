"""Publishing of caches: building, pushing, signing and copying images."""
