"""Ownership of the cards of a node by other operators, device plugins and DRA drivers, detected by their objects."""
