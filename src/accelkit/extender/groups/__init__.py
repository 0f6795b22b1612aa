"""Pod groups: either all pods of a group get cards, or none of its pods."""
