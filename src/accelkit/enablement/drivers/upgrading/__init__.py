"""Upgrade of the driver on one node, with cordon, drain and validation."""
