"""Conversion of absolute paths in cache files to the path at which workloads mount the cache."""
