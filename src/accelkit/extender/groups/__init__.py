"""Pod groups: all pods of a group get cards together, or none of them does."""
