"""Kernel caches as images: names, registries, formats, signatures, compatibility, extraction and publishing."""
