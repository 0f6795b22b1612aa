"""Replay of a task trace, which evaluates a policy without a cluster."""
