"""`accelkit defrag`: plan a small number of evictions that make pending pods fit, and apply the plan."""
