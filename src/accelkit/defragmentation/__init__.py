"""`accelkit defrag`: plan a few evictions after which waiting pods fit, and apply the plan."""
