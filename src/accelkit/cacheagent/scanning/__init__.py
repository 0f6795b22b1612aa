"""Scan of the private copies of pods, in a separate container, for files that the pods created."""
