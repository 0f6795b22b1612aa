"""Replay of a task trace on its nodes, which evaluates a policy without touching a cluster."""
