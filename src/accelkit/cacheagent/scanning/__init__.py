"""Scan of private copies for files that pods created, which runs in a separate container."""
