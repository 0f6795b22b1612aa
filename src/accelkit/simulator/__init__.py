"""Replay of a task trace, to evaluate a policy without a cluster."""
