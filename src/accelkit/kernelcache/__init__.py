"""Kernel caches in images: names, registries, formats, signatures, compatibility, extraction and publishing."""
