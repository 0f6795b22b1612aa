"""Pod groups: so many pods as belong together are given cards together, or none of them is."""
