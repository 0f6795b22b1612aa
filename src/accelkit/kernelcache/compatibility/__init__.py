"""Compatibility of caches and cards: verdicts with reasons, from the labels of an image and the facts about a node."""
