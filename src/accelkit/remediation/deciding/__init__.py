"""Decisions about failed cards. This package does not perform I/O."""
