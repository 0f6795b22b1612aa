"""Metrics about the results of the enablement stages, which are read by watching nodes."""
