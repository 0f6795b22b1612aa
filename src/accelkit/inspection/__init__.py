"""Inspections: cards, shares and pods, as values, tables and `accelkit inspect`."""
