"""`accelkit defrag`: plan a small number of evictions after which pending pods fit, and apply the plan."""
