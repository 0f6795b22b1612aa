"""Drivers of cards: one image per kernel, upgrades node by node, and whether nodes work with what is to come."""
