"""Inspections of cards, shares and pods, for `accelkit inspect` and the extender."""
