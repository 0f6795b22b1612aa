"""Kernel caches: image references, registry, signatures, formats, compatibility and extraction."""
