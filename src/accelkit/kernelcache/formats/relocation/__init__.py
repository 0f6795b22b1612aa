"""Rewriting of cache files that name other files by absolute path, for the path at which workloads mount the cache."""
