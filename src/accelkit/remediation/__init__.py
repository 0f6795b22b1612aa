"""Remediation of failed cards: isolate the card, evict its pods, repair the card, and lift the isolation."""
