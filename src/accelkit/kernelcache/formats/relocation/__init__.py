"""Rewriting of absolute paths in cache files to match the path at which workloads mount the cache."""
