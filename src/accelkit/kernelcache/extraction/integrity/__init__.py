"""Integrity of an extracted cache: protection against changes, and detection of changes."""
