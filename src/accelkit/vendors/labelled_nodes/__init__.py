"""Readers of cards from node labels and node status, in the formats of other systems."""
