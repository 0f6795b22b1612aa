"""Readers of the cards in node labels and node status, in the formats of other systems."""
