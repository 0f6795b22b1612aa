"""Compatibility of caches and cards: verdicts with reasons, from an image's labels and what is known of a node."""
