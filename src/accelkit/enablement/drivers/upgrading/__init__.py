"""Upgrading the driver of one node: its cordon, who leaves it, and when it is done."""
