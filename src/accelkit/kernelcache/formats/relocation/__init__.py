"""Rewriting of absolute paths in the files of a cache, for the path at which workloads mount the cache."""
