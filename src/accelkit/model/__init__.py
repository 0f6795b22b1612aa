"""Immutable values without I/O: cards, requests, assignments, inventories, and fields of pods and nodes."""
