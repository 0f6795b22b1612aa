"""Eviction of pods, and the PodDisruptionBudgets that forbid it."""
