"""Judges the stages of enablement from lists that were read before: no I/O."""
