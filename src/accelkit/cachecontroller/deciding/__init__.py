"""Desired claims, conditions and former digests of a cache; no I/O."""
