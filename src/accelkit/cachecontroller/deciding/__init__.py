"""Decisions about the claims, conditions and former digests of a cache, without I/O."""
