"""Decisions about failed cards, without I/O."""
