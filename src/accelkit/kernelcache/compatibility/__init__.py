"""Compatibility between caches and cards: verdicts with reasons, derived from image labels and node facts."""
