"""Keeps who holds what: all assignments of a cluster in memory, kept up to date from pods and nodes. No I/O."""
