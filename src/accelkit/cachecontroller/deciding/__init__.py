"""Decisions about the claims, conditions and previous digests of a cache, without I/O."""
