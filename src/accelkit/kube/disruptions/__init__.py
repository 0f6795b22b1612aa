"""Pod eviction, and the PodDisruptionBudgets that restrict it."""
