"""Metrics about the results of the enablement stages, read from the watch of nodes."""
