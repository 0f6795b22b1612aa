"""Scan of private copies for files that pods created. The scan runs in a separate container."""
