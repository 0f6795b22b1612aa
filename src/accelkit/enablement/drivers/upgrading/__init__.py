"""Upgrade of the driver of one node: its cordon, its drain, and its validation."""
