"""`accelkit defrag`: planner of a few evictions after which waiting pods fit, and applier of the plan."""
