"""Upgrade of the driver on one node: cordon, drain and validation."""
