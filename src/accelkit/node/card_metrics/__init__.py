"""Metrics for the cards of this node, with the same names for all vendors."""
