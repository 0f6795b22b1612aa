"""`accelkit defrag`: plans a few evictions after which waiting pods fit, and applies the plan."""
