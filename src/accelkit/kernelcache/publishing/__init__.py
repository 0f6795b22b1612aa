"""Caches on their way into a registry: built, signed, copied."""
