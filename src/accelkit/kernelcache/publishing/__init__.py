"""Publishing of caches: images are built, pushed, signed and copied."""
